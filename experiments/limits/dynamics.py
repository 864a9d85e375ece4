r"""Attention at small bandwidths, rescaled, with its leading term subtracted."""

import functools
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield import attentions, flow
from meanfield.dynamics import Drift, Sum
from meanfield.endings import Status
from meanfield.errors import SimulationError
from meanfield.measures import AbstractMeasure, Points
from meanfield.tokens import Tokens

M = TypeVar("M", bound=AbstractMeasure)


class Heat(eqx.Module):
    r"""Sinkhorn attention minus its leading term, $T^\infty_\epsilon - W_Vx/\epsilon$.

    The difference is $\bar T^\infty_\epsilon$ of sander2022, Theorem 1, with $W_V =
    -W_K^\top W_Q$ and the kernel $e^{c/\epsilon}$.
    """

    Q: Float[Array, "k d"]
    K: Float[Array, "k d"]

    def at(self, epsilon: Float[Array, ""]) -> Sum:
        """The dynamics at a bandwidth."""
        A = self.K.T @ self.Q
        attention = attentions["sinkhorn"](self.Q, self.K, -A, epsilon=epsilon)
        return Sum(attention, Drift(A / epsilon))


class NonlocalHeat(eqx.Module):
    r"""L2 attention minus its leading term, $T^1_\epsilon + W_Q^\top W_Qx/\epsilon$.

    The difference is $\bar T^1_\epsilon$ of sander2022, Proposition 4, whose leading
    term is misprinted (ERRATA S3). The scores are $-|W_Qx - W_Ky|^2/2\epsilon$, and
    $W_V = -W_Q^\top W_K$.
    """

    Q: Float[Array, "k d"]
    K: Float[Array, "k d"]

    def at(self, epsilon: Float[Array, ""]) -> Sum:
        """The dynamics at a bandwidth."""
        value = -self.Q.T @ self.K / epsilon
        attention = attentions["l2"](self.Q, self.K, value, epsilon=2 * epsilon)
        return Sum(attention, Drift(self.Q.T @ self.Q / epsilon))


Family = Heat | NonlocalHeat


class Velocities(NamedTuple):
    """Velocities, and the residual of the iteration that determines them.

    Attributes:
        values: velocities by bandwidth or case, and by token.
        residual: largest residual of Sinkhorn's iteration divided by its tolerance.
    """

    values: Float[np.ndarray, "... m d"]
    residual: float


def velocities(
    family: Family,
    mu: AbstractMeasure,
    epsilons: Float[np.ndarray, " k"],
    queries: Float[np.ndarray, "m d"],
) -> Velocities:
    """Velocities of one measure at the given queries, for each bandwidth."""
    arrays = map(jnp.asarray, (epsilons, queries))
    return _as_velocities(_velocities_at_bandwidths(family, mu, *arrays))


def batched_velocities(
    family: Family,
    x: Float[np.ndarray, "cases n d"],
    weights: Float[np.ndarray, "cases n"],
    epsilons: Float[np.ndarray, " cases"],
) -> Velocities:
    """Velocities of several clouds of weighted tokens, at the tokens themselves."""
    arrays = map(jnp.asarray, (x, weights, epsilons))
    return _as_velocities(_batched_velocities(family, *arrays))


def flow_to_time(
    family: Family, mu: M, epsilons: Float[np.ndarray, " k"], t: float
) -> list[M]:
    """Integrates a measure until time `t`, at each bandwidth.

    Raises:
        SimulationError: if a flow ends before `t`.
    """
    times = np.array([0.0, t])
    ends = []
    for epsilon in epsilons:
        trajectory = flow(family.at(jnp.asarray(epsilon)), mu, times)
        if trajectory.status != Status.FINISHED:
            raise SimulationError(
                f"The flow at bandwidth {epsilon:g} ended with status "
                f"`{trajectory.status.ending}` at t = {float(trajectory.stop_time):g}, "
                f"before t = {t:g}."
            )
        ends.append(trajectory.final)
    return ends


@eqx.filter_jit
def _velocities_at_bandwidths(
    family: Family, mu: AbstractMeasure, epsilons: Array, queries: Array
) -> tuple[Array, Array]:
    at_bandwidth = functools.partial(
        _velocities_and_residual, family, mu, Tokens(queries)
    )
    return jax.lax.map(at_bandwidth, epsilons)


@eqx.filter_jit
def _batched_velocities(
    family: Family, x: Array, weights: Array, epsilons: Array
) -> tuple[Array, Array]:
    def velocities_of_case(case: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        tokens, w, epsilon = case
        mu = Points.weighted(tokens, w)
        return _velocities_and_residual(family, mu, mu.tokens, epsilon)

    return jax.lax.map(velocities_of_case, (x, weights, epsilons))


def _velocities_and_residual(
    family: Family, mu: AbstractMeasure, queries: Tokens, epsilon: Array
) -> tuple[Array, Array]:
    field = family.at(epsilon).field(0.0, mu)
    if field.convergence is None:
        return field(queries), jnp.zeros(())
    return field(queries), field.convergence.residual / field.convergence.tolerance


def _as_velocities(arrays: tuple[Array, Array]) -> Velocities:
    return Velocities(np.asarray(arrays[0]), float(jnp.max(arrays[1])))
