"""The procedure published with castin2025: fixed Euler steps of a covariance, clipped.

It is here to be looked at, not to be trusted: its endings are thresholds, and its steps
are as long as they are. `flow` and `ensemble` solve the same equations to tolerance.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from meanfield.dynamics import AbstractDynamics
from meanfield.errors import UnsupportedError
from meanfield.fields import Affine
from meanfield.linalg import eigh, length
from meanfield.measures import Gaussian

from ._trajectory import Status

FLOOR = 1e-14  # eigenvalues are clipped here after every step
MAX_STEPS = 50_000


class ClippedEuler(NamedTuple):
    """What the published procedure gives, for each member of a family.

    Attributes:
        steps: at which the frames were taken; a member that has ended stays.
        covariances: the frames.
        final: the covariance that a member ended with.
        n_steps: how many steps it took.
        code: a `Status`: `STEADY` where the right-hand side fell below its threshold,
            `BLOW_UP` where the trace passed its bound, `MAX_STEPS`, `NOT_FINITE`.
    """

    steps: Int[np.ndarray, " frames"]
    covariances: Float[Array, "members frames d d"]
    final: Float[Array, "members d d"]
    n_steps: Int[Array, " members"]
    code: Int[Array, " members"]


class Rule(NamedTuple):
    """Step length and thresholds of the procedure.

    Attributes:
        dt: the length of a step.
        rest: ends a member whose right-hand side is smaller, in Frobenius norm.
        bound: ends a member whose trace is larger.
    """

    dt: float
    rest: float
    bound: float


class _State(NamedTuple):
    step: Int[Array, ""]
    covariance: Float[Array, "members d d"]
    factor: Float[Array, "members d d"]
    code: Int[Array, " members"]
    n_steps: Int[Array, " members"]


def clipped_euler(
    dynamics: AbstractDynamics,
    covariances: Float[Array, "members d d"],
    rule: Rule,
    frames: int = 200,
) -> ClippedEuler:
    """Steps covariances of centred Gaussians as the published scripts do.

    One step evaluates the right-hand side, adds it, clips eigenvalues at 1e-14, then
    compares the norm of the right-hand side with `rule.rest`, then the trace with
    `rule.bound`; after 50 000 steps it gives up.

    Args:
        dynamics: must keep Gaussians Gaussian and centred.
        covariances: the starts.
        rule: step length and thresholds.
        frames: covariances kept on the way, at geometrically spaced steps.

    Raises:
        UnsupportedError: if the field of a Gaussian is not affine.
    """
    edges = np.unique(np.geomspace(1, MAX_STEPS, frames).astype(int))
    floor = jnp.asarray(FLOOR, covariances.dtype)
    final, kept = _stepped(dynamics, covariances, rule, floor, jnp.asarray(edges))
    code = jnp.where(final.code == _GOING, int(Status.MAX_STEPS), final.code)
    whole = jnp.concatenate([covariances[None], kept]).swapaxes(0, 1)
    steps = np.append(0, edges)
    return ClippedEuler(steps, whole, final.covariance, final.n_steps, code)


_GOING = -1


@eqx.filter_jit
def _stepped(
    dynamics: AbstractDynamics,
    covariances: Float[Array, "members d d"],
    rule: Rule,
    floor: Float[Array, ""],
    edges: Int[Array, " frames"],
) -> tuple[_State, Float[Array, "frames members d d"]]:
    n = covariances.shape[0]
    nothing = jnp.zeros(n, int)
    factors = jax.vmap(partial(_clipped, 0.0))(covariances)[1]
    start = _State(jnp.asarray(0), covariances, factors, nothing + _GOING, nothing)
    one = partial(_step, dynamics, rule, floor)

    def to(state: _State, edge: Array) -> tuple[_State, Array]:
        goes_on = lambda s: (s.step < edge) & jnp.any(s.code == _GOING)
        state = jax.lax.while_loop(goes_on, one, state)
        return state, state.covariance

    return jax.lax.scan(to, start, edges)


def _step(
    dynamics: AbstractDynamics, rule: Rule, floor: Array, state: _State
) -> _State:
    rate = jax.vmap(partial(_rate, dynamics))(state.covariance, state.factor)
    moved = state.covariance + rule.dt * rate
    after, factor = jax.vmap(partial(_clipped, floor))(moved)
    code = jnp.full_like(state.code, _GOING)
    trace = jnp.trace(after, axis1=1, axis2=2)
    code = jnp.where(trace > rule.bound, int(Status.BLOW_UP), code)
    code = jnp.where(jax.vmap(length)(rate) < rule.rest, int(Status.STEADY), code)
    code = jnp.where(jnp.isfinite(trace), code, int(Status.NOT_FINITE))
    going: Bool[Array, " members"] = state.code == _GOING
    return _State(
        state.step + 1,
        jnp.where(going[:, None, None], after, state.covariance),
        jnp.where(going[:, None, None], factor, state.factor),
        jnp.where(going, code, state.code),
        state.n_steps + going,
    )


def _rate(dynamics: AbstractDynamics, Sigma: Array, factor: Array) -> Array:
    r"""$L\Sigma + \Sigma L^\top$."""
    mu = Gaussian(jnp.zeros_like(Sigma[0]), factor)
    field = dynamics.field(jnp.zeros((), Sigma.dtype), mu)
    if not isinstance(field, Affine):
        raise UnsupportedError(
            f"The procedure needs an affine field; got a {type(field).__name__}."
        )
    half = field.linear @ Sigma
    return half + half.T


def _clipped(floor: Array | float, Sigma: Array) -> tuple[Array, Array]:
    """A covariance with its eigenvalues no lower than `floor`, and its factor."""
    values, U = eigh(Sigma)
    values = jnp.maximum(values, floor)[None, :]
    return (U * values) @ U.T, U * jnp.sqrt(values)
