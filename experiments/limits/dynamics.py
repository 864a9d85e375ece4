r"""Attention at a small bandwidth, rescaled, its leading term taken away."""

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
    r"""$\bar T^\infty_\epsilon = T^\infty_\epsilon - W_Vx/\epsilon$, by $\epsilon$.

    $W_V = -W_K^\top W_Q$; sander2022, Theorem 1, with the kernel $e^{c/\epsilon}$.
    """

    Q: Float[Array, "k d"]
    K: Float[Array, "k d"]

    def at(self, epsilon: Float[Array, ""]) -> Sum:
        """The dynamics."""
        A = self.K.T @ self.Q
        attention = attentions["sinkhorn"](self.Q, self.K, -A, epsilon=epsilon)
        return Sum(attention, Drift(A / epsilon))


class NonlocalHeat(eqx.Module):
    r"""$\bar T^1_\epsilon = T^1_\epsilon + W_Q^\top W_Qx/\epsilon$, by $\epsilon$.

    Scores $-|W_Qx - W_Ky|^2/2\epsilon$ and $W_V = -W_Q^\top W_K$; sander2022,
    Proposition 4, whose leading term is misprinted (ERRATA S3).
    """

    Q: Float[Array, "k d"]
    K: Float[Array, "k d"]

    def at(self, epsilon: Float[Array, ""]) -> Sum:
        """The dynamics."""
        value = -self.Q.T @ self.K / epsilon
        attention = attentions["l2"](self.Q, self.K, value, epsilon=2 * epsilon)
        return Sum(attention, Drift(self.Q.T @ self.Q / epsilon))


Family = Heat | NonlocalHeat


class Velocities(NamedTuple):
    """Velocities, and what the iteration behind them left.

    Attributes:
        values: by whatever was asked for, and token.
        residual: the largest of an iteration, over its tolerance.
    """

    values: Float[np.ndarray, "... m d"]
    residual: float


def velocities(
    family: Family,
    mu: AbstractMeasure,
    epsilons: Float[np.ndarray, " k"],
    queries: Float[np.ndarray, "m d"],
) -> Velocities:
    """Of one measure at each bandwidth."""
    host = map(jnp.asarray, (epsilons, queries))
    return _host(_at_bandwidths(family, mu, *host))


def velocities_of_each(
    family: Family,
    x: Float[np.ndarray, "cases n d"],
    weights: Float[np.ndarray, "cases n"],
    epsilons: Float[np.ndarray, " cases"],
) -> Velocities:
    """Of weighted tokens at themselves, a case at a time."""
    parts = map(jnp.asarray, (x, weights, epsilons))
    return _host(_of_each(family, *parts))


def moved(
    family: Family, mu: M, epsilons: Float[np.ndarray, " k"], t: float
) -> list[M]:
    """A measure at time `t`, at each bandwidth.

    Raises:
        SimulationFailed: if a flow ended before.
    """
    times = np.array([0.0, t])
    ends = []
    for epsilon in epsilons:
        trajectory = flow(family.at(jnp.asarray(epsilon)), mu, times)
        if trajectory.status != Status.FINISHED:
            raise SimulationError(
                f"The flow at bandwidth {epsilon:g} ended as "
                f"`{trajectory.status.ending}` at t = {float(trajectory.stop_time):g}, "
                f"before t = {t:g}."
            )
        ends.append(trajectory.final)
    return ends


@eqx.filter_jit
def _at_bandwidths(
    family: Family, mu: AbstractMeasure, epsilons: Array, queries: Array
) -> tuple[Array, Array]:
    return jax.lax.map(functools.partial(_asked, family, mu, Tokens(queries)), epsilons)


@eqx.filter_jit
def _of_each(
    family: Family, x: Array, weights: Array, epsilons: Array
) -> tuple[Array, Array]:
    def velocities_of_case(case: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        tokens, w, epsilon = case
        mu = Points.weighted(tokens, w)
        return _asked(family, mu, mu.tokens, epsilon)

    return jax.lax.map(velocities_of_case, (x, weights, epsilons))


def _asked(
    family: Family, mu: AbstractMeasure, queries: Tokens, epsilon: Array
) -> tuple[Array, Array]:
    field = family.at(epsilon).field(0.0, mu)
    if field.convergence is None:
        return field(queries), jnp.zeros(())
    return field(queries), field.convergence.residual / field.convergence.tolerance


def _host(arrays: tuple[Array, Array]) -> Velocities:
    return Velocities(np.asarray(arrays[0]), float(jnp.max(arrays[1])))
