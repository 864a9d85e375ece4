"""The procedure of castin2025: clipped Euler steps of fixed length for covariances.

It is kept for comparison only: it stops at thresholds, and its steps have no error
control. `flow` and `ensemble` solve the same equations to a tolerance. The statement
`castin2025:sec-4.5-euler` measures it, and figures show its results.
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

FLOOR = 1e-14  # after every step, smaller eigenvalues are raised to this value
MAX_STEPS = 50_000
SMALL = 32  # a batch of up to 32 members runs as fast as one member


class ClippedEuler(NamedTuple):
    """Result of the published procedure, for all members of a family."""

    # The array `steps` holds the step number of each frame. A member that has ended no
    # longer changes.
    steps: Int[Array, " frames"]
    covariances: Float[JaxArray, "members frames d d"]  # covariances at frames
    final: Float[JaxArray, "members d d"]  # final covariances
    n_steps: Int[JaxArray, " members"]  # numbers of steps taken
    # Each code is a `Status`: `STEADY` if the right-hand side fell below its threshold,
    # `BLOW_UP` if the trace passed its bound, or `MAX_STEPS` or `NOT_FINITE`.
    code: Int[JaxArray, " members"]


class Rule(NamedTuple):
    """Step length and thresholds of the procedure."""

    dt: float  # the length of a step
    rest: float  # a member ends when the Frobenius norm of its rate falls below this
    bound: float  # a member ends when its trace exceeds this bound


class _State(NamedTuple):
    covariance: Float[JaxArray, "members d d"]
    factor: Float[JaxArray, "members d d"]
    code: Int[JaxArray, " members"]
    n_steps: Int[JaxArray, " members"]


class _Family(NamedTuple):
    dynamics: AbstractDynamics
    rule: Rule
    floor: Float[JaxArray, ""]
    axis: int | None  # axis along which `dynamics` is stacked; None if it is no stack


def clipped_euler(
    dynamics: AbstractDynamics,
    covariances: Float[JaxArray, "members d d"],
    rule: Rule,
    frames: int = 200,
    *,
    axis: int | None = None,
) -> ClippedEuler:
    """Advances covariances of centred Gaussians as the published scripts do.

    One step evaluates the right-hand side, adds it times `rule.dt`, clips eigenvalues
    at 1e-14, and compares the norm of the right-hand side with `rule.rest` and then the
    trace with `rule.bound`. The procedure stops after 50 000 steps.

    Args:
        dynamics: one dynamics for all members, or a stack; must keep Gaussians
            Gaussian and centred.
        covariances: initial covariances.
        rule: step length and thresholds.
        frames: number of stored covariances, at geometrically spaced steps.
        axis: 0 if `dynamics` is a stack, with the members along axis 0 of its arrays.

    Raises:
        UnsupportedError: if the field of a Gaussian is not affine.
    """
    edges = np.unique(np.geomspace(1, MAX_STEPS, frames).astype(int))
    # The rule's numbers become arrays, so that one compilation serves all rules.
    rule = jax.tree.map(jnp.asarray, rule)
    family = _Family(dynamics, rule, jnp.asarray(FLOOR, covariances.dtype), axis)
    state = jax.tree.map(np.asarray, _initial_state(covariances))
    snapshots = [state.covariance]
    for begin, end in pairwise([0, *edges.tolist()]):
        state = _advance(family, state, begin, end)
        snapshots.append(state.covariance)
    code = np.where(state.code == _GOING, int(Status.MAX_STEPS), state.code)
    whole = jnp.asarray(np.stack(snapshots, axis=1))
    final, n_steps = jnp.asarray(state.covariance), jnp.asarray(state.n_steps)
    return ClippedEuler(np.append(0, edges), whole, final, n_steps, jnp.asarray(code))


_GOING = -1


@jax.jit
def _initial_state(covariances: Float[JaxArray, "members d d"]) -> _State:
    nothing = jnp.zeros(covariances.shape[0], int)
    factors = jax.vmap(partial(_clip, 0.0))(covariances)[1]
    return _State(covariances, factors, nothing + _GOING, nothing)


def _advance(family: _Family, state: _State, begin: int, end: int) -> _State:
    """Advances all members that are still running from step `begin` to step `end`.

    These members are gathered into blocks of a few fixed sizes, so that stragglers cost
    little and few programs are compiled.
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
    new_part = _take_steps(family, part, jnp.asarray(begin), jnp.asarray(end))

    def scatter(whole: Array, leaf: JaxArray) -> Array:
        new = whole.copy()
        new[block] = leaf
        return new

    return jax.tree.map(scatter, state, new_part)


@eqx.filter_jit
def _take_steps(
    family: _Family, state: _State, begin: Int[JaxArray, ""], end: Int[JaxArray, ""]
) -> _State:
    def is_running(loop: tuple[JaxArray, _State]) -> Bool[JaxArray, ""]:
        return (loop[0] < end) & jnp.any(loop[1].code == _GOING)

    advance = lambda loop: (loop[0] + 1, _step(family, loop[1]))
    return jax.lax.while_loop(is_running, advance, (begin, state))[1]


def _step(family: _Family, state: _State) -> _State:
    dynamics, rule, floor, axis = family
    axes = None if axis is None else eqx.if_array(axis)
    rates = eqx.filter_vmap(_rate, in_axes=(axes, 0, 0))
    rate = rates(dynamics, state.covariance, state.factor)
    trial = state.covariance + rule.dt * rate
    covariance, factor = clip_all(floor, trial)
    code = jnp.full_like(state.code, _GOING)
    trace = jnp.trace(covariance, axis1=1, axis2=2)
    code = jnp.where(trace > rule.bound, int(Status.BLOW_UP), code)
    code = jnp.where(jax.vmap(length)(rate) < rule.rest, int(Status.STEADY), code)
    code = jnp.where(jnp.isfinite(trace), code, int(Status.NOT_FINITE))
    going: Bool[JaxArray, " members"] = state.code == _GOING
    return _State(
        jnp.where(going[:, None, None], covariance, state.covariance),
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
            "The clipped Euler steps need a field that is affine on Gaussians; "
            f"got a field of type `{type(field).__name__}`."
        )
    return field.covariance_rate(Sigma)


def clip_all(floor: JaxArray, covariances: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Applies `_clip` to each covariance, unless Cholesky shows that none needs it.

    The test uses half of `floor`, so that rounding does not make it fail for
    eigenvalues that have just been clipped. For large covariances the rounding errors
    exceed `floor`, and Cholesky can fail.
    """
    if covariances.shape[-1] == 2:  # in 2D, clipping costs no more than the test
        return jax.vmap(partial(_clip, floor))(covariances)
    shift = floor / 2 * jnp.eye(covariances.shape[-1], dtype=covariances.dtype)
    shifted_factors = jnp.linalg.cholesky(covariances - shift[None])
    factors = jnp.linalg.cholesky(covariances)
    return jax.lax.cond(
        jnp.all(jnp.isfinite(shifted_factors)) & jnp.all(jnp.isfinite(factors)),
        lambda S, factors: (S, factors),
        lambda S, _: jax.vmap(partial(_clip, floor))(S),
        covariances,
        factors,
    )


def _clip(floor: JaxArray | float, Sigma: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Covariance with eigenvalues clipped at `floor`, and its factor.

    A covariance whose eigenvalues are all above `floor` is returned unchanged, free of
    rounding errors.
    """
    values, U = eigh(Sigma)
    clipped_values = jnp.maximum(values, floor)[None, :]
    whole = jnp.where(values[0] < floor, (U * clipped_values) @ U.T, Sigma)
    return whole, U * jnp.sqrt(clipped_values)
