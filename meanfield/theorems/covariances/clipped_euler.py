"""The procedure published with castin2025: fixed Euler steps of a covariance, clipped.

It is here to be looked at, not to be trusted: its endings are thresholds, and its steps
are as long as they are. `flow` and `ensemble` solve the same equations to tolerance.
The statement `castin2025:sec-4.5-euler` measures it, and figures show what it does.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import UnsupportedError
from meanfield.fields import Affine
from meanfield.linalg import eigh, length
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np

FLOOR = 1e-14  # eigenvalues are clipped here after every step
MAX_STEPS = 50_000
SMALL = 32  # members that step as fast as one


class ClippedEuler(NamedTuple):
    """What the published procedure gives, for each member of a family."""

    # at which the frames were taken; a member that has ended stays
    steps: Int[Array, " frames"]
    covariances: Float[JaxArray, "members frames d d"]  # the frames
    final: Float[JaxArray, "members d d"]  # the covariance that a member ended with
    n_steps: Int[JaxArray, " members"]  # how many steps it took
    # a `Status`: `STEADY` where the right-hand side fell below its threshold, `BLOW_UP`
    # where the trace passed its bound, `MAX_STEPS`, `NOT_FINITE`
    code: Int[JaxArray, " members"]


class Rule(NamedTuple):
    """Step length and thresholds of the procedure."""

    dt: float  # the length of a step
    rest: float  # ends a member whose right-hand side is smaller, in Frobenius norm
    bound: float  # ends a member whose trace is larger


class _State(NamedTuple):
    covariance: Float[JaxArray, "members d d"]
    factor: Float[JaxArray, "members d d"]
    code: Int[JaxArray, " members"]
    n_steps: Int[JaxArray, " members"]


class _Family(NamedTuple):
    dynamics: AbstractDynamics
    rule: Rule
    floor: Float[JaxArray, ""]
    axis: int | None  # of the members in `dynamics`


def clipped_euler(
    dynamics: AbstractDynamics,
    covariances: Float[JaxArray, "members d d"],
    rule: Rule,
    frames: int = 200,
    *,
    axis: int | None = None,
) -> ClippedEuler:
    """Steps covariances of centred Gaussians as the published scripts do.

    One step evaluates the right-hand side, adds it, clips eigenvalues at 1e-14, then
    compares the norm of the right-hand side with `rule.rest`, then the trace with
    `rule.bound`; after 50 000 steps it gives up.

    Args:
        dynamics: must keep Gaussians Gaussian and centred; one for all, or a stack of
            them.
        covariances: the starts.
        rule: step length and thresholds.
        frames: covariances kept on the way, at geometrically spaced steps.
        axis: 0 if `dynamics` is a stack, whose arrays lead with the axis of members.

    Raises:
        UnsupportedError: if the field of a Gaussian is not affine.
    """
    edges = np.unique(np.geomspace(1, MAX_STEPS, frames).astype(int))
    # Arrays, so that one compilation serves all rules.
    rule = jax.tree.map(jnp.asarray, rule)
    family = _Family(dynamics, rule, jnp.asarray(FLOOR, covariances.dtype), axis)
    state = jax.tree.map(np.asarray, _started(covariances))
    kept = [state.covariance]
    for begin, end in pairwise([0, *edges.tolist()]):
        state = _advanced(family, state, begin, end)
        kept.append(state.covariance)
    code = np.where(state.code == _GOING, int(Status.MAX_STEPS), state.code)
    whole = jnp.asarray(np.stack(kept, axis=1))
    final, n_steps = jnp.asarray(state.covariance), jnp.asarray(state.n_steps)
    return ClippedEuler(np.append(0, edges), whole, final, n_steps, jnp.asarray(code))


_GOING = -1


@jax.jit
def _started(covariances: Float[JaxArray, "members d d"]) -> _State:
    nothing = jnp.zeros(covariances.shape[0], int)
    factors = jax.vmap(partial(_clipped, 0.0))(covariances)[1]
    return _State(covariances, factors, nothing + _GOING, nothing)


def _advanced(family: _Family, state: _State, begin: int, end: int) -> _State:
    """`state` after more steps of those members that have not ended.

    Blocks of few sizes, so that stragglers cost little and few programs are compiled.
    """
    going = np.flatnonzero(state.code == _GOING)
    if going.size == 0:
        return state
    size = len(state.code)
    while size >= 4 * going.size and size > SMALL:
        size = -(-size // 4)
    block = going[np.minimum(np.arange(size), going.size - 1)]
    take = lambda leaf: np.asarray(leaf)[block] if eqx.is_array(leaf) else leaf
    if family.axis is not None:
        family = family._replace(dynamics=jax.tree.map(take, family.dynamics))
    part = jax.tree.map(take, state)
    moved = _stepped(family, part, jnp.asarray(begin), jnp.asarray(end))

    def put(whole: Array, leaf: JaxArray) -> Array:
        new = whole.copy()
        new[block] = leaf
        return new

    return jax.tree.map(put, state, moved)


@eqx.filter_jit
def _stepped(
    family: _Family, state: _State, begin: Int[JaxArray, ""], end: Int[JaxArray, ""]
) -> _State:
    def goes_on(loop: tuple[JaxArray, _State]) -> Bool[JaxArray, ""]:
        return (loop[0] < end) & jnp.any(loop[1].code == _GOING)

    advance = lambda loop: (loop[0] + 1, _step(family, loop[1]))
    return jax.lax.while_loop(goes_on, advance, (begin, state))[1]


def _step(family: _Family, state: _State) -> _State:
    dynamics, rule, floor, axis = family
    of_each = None if axis is None else eqx.if_array(axis)
    rates = eqx.filter_vmap(_rate, in_axes=(of_each, 0, 0))
    rate = rates(dynamics, state.covariance, state.factor)
    moved = state.covariance + rule.dt * rate
    after, factor = all_clipped(floor, moved)
    code = jnp.full_like(state.code, _GOING)
    trace = jnp.trace(after, axis1=1, axis2=2)
    code = jnp.where(trace > rule.bound, int(Status.BLOW_UP), code)
    code = jnp.where(jax.vmap(length)(rate) < rule.rest, int(Status.STEADY), code)
    code = jnp.where(jnp.isfinite(trace), code, int(Status.NOT_FINITE))
    going: Bool[JaxArray, " members"] = state.code == _GOING
    return _State(
        jnp.where(going[:, None, None], after, state.covariance),
        jnp.where(going[:, None, None], factor, state.factor),
        jnp.where(going, code, state.code),
        state.n_steps + going,
    )


def _rate(dynamics: AbstractDynamics, Sigma: JaxArray, factor: JaxArray) -> JaxArray:
    r"""$L\Sigma + \Sigma L^\top$."""
    mu = Gaussian(jnp.zeros_like(Sigma[0]), factor)
    field = dynamics.field(jnp.zeros((), Sigma.dtype), mu)
    if not isinstance(field, Affine):
        raise UnsupportedError(
            f"The procedure needs an affine field; got a {type(field).__name__}."
        )
    return field.covariance_rate(Sigma)


def all_clipped(floor: JaxArray, covariances: JaxArray) -> tuple[JaxArray, JaxArray]:
    """`_clipped` of each, whose eigenvalues are computed only if any may be too low.

    Half the floor, so that those just clipped do not count as too low by rounding. Of
    large covariances rounding is larger than the floor, and may leave no factor.
    """
    if covariances.shape[-1] == 2:  # where eigenvalues cost no more than the question
        return jax.vmap(partial(_clipped, floor))(covariances)
    shift = floor / 2 * jnp.eye(covariances.shape[-1], dtype=covariances.dtype)
    above = jnp.linalg.cholesky(covariances - shift[None])
    factors = jnp.linalg.cholesky(covariances)
    return jax.lax.cond(
        jnp.all(jnp.isfinite(above)) & jnp.all(jnp.isfinite(factors)),
        lambda S, factors: (S, factors),
        lambda S, _: jax.vmap(partial(_clipped, floor))(S),
        covariances,
        factors,
    )


def _clipped(floor: JaxArray | float, Sigma: JaxArray) -> tuple[JaxArray, JaxArray]:
    """A covariance with its eigenvalues no lower than `floor`, and its factor.

    Put together again only where it must be, so that no rounding is added elsewhere.
    """
    values, U = eigh(Sigma)
    raised = jnp.maximum(values, floor)[None, :]
    whole = jnp.where(values[0] < floor, (U * raised) @ U.T, Sigma)
    return whole, U * jnp.sqrt(raised)
