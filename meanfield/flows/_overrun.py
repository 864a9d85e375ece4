r"""Blow-ups that steps of a fixed length would walk past.

A step that is as long as what is left of the time sees nothing of a blow-up: it lands
beyond it, on a finite state. Here the time is read off the path instead. With $u$ the
log-size and $r = u'$ its exact rate at a state, the exact flow takes $\int du/r$ from
state to state, whatever the steps took, and under a power law $r \propto e^{\kappa u}$
it blows up $1/(\kappa r)$ later.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from meanfield.dynamics import AbstractDynamics
from meanfield.measures import AbstractMeasure

from ._noise import Noise, drift

DRIFT = 0.25  # of the time between them, up to which two estimates agree
LEAST = 1e-6  # fall of the log-rate in a step, below which it is none


class Pace(NamedTuple):
    """How fast a state grows, and when a blow-up would be due."""

    t: Float[Array, ""]
    log_size: Float[Array, ""]
    rate: Float[Array, ""]
    passed: Float[Array, ""]  # the time of the exact flow
    t_star: Float[Array, ""]
    change: Float[Array, ""]  # of `t_star` at the last step
    agrees: Bool[Array, ""]  # with the one before

    def due(self, t: Float[Array, ""]) -> Array:
        """Whether the exact flow has blown up by the time `t`."""
        return self.agrees & (self.t_star <= t)

    def across(self, jump: Array) -> "Pace":
        """The pace at a jump, beyond which growth follows another law."""
        never = jnp.asarray(jnp.inf, self.t.dtype)
        return self._replace(
            t_star=jnp.where(jump, never, self.t_star),
            agrees=self.agrees & ~jump,
        )

    @property
    def error(self) -> Float[Array, ""]:
        """How far off `t_star` may be: all by which the steps misjudged the time."""
        return jnp.abs(self.lag) + jnp.abs(self.change)

    @property
    def lag(self) -> Float[Array, ""]:
        """How much earlier the exact flow was here."""
        return self.t - self.passed


class Pacing(eqx.Module):
    """Reads the time of the exact flow off the states that fixed steps reach."""

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    noise: Noise

    def start(self, t: Array, y: PyTree[Array], lag: Array) -> Pace:
        """The pace at the start, which the exact flow has left `lag` before."""
        log_size, rate = self._growth(t, y)
        never = jnp.full_like(t, jnp.inf)
        return Pace(t, log_size, rate, t - lag, never, never, jnp.zeros((), bool))

    def after(self, pace: Pace, t: Array, y: PyTree[Array]) -> Pace:
        """The pace at the end of a step."""
        log_size, rate = self._growth(t, y)
        grown = log_size - pace.log_size
        grows = (pace.rate > 0) & (rate > 0) & (grown > 0)
        gain = jnp.log(jnp.where(grows, rate / pace.rate, 1))  # kappa times grown
        faster = grows & (gain > LEAST)
        kappa = jnp.where(faster, gain / jnp.where(grows, grown, 1), 1)
        curved = -jnp.expm1(-gain) / jnp.where(jnp.abs(gain) > LEAST, gain, 1)
        shape = jnp.where(jnp.abs(gain) > LEAST, curved, 1)
        took = jnp.where(grows, grown * shape / pace.rate, t - pace.t)
        passed = pace.passed + took
        t_star = jnp.where(faster, passed + 1 / (kappa * rate), jnp.inf)
        change = t_star - pace.t_star
        near = jnp.isfinite(t_star) & (jnp.abs(change) <= DRIFT * took)
        return Pace(t, log_size, rate, passed, t_star, change, near)

    def _growth(self, t: Array, y: PyTree[Array]) -> tuple[Array, Array]:
        """Log-size and its rate; no rate where the growth is bounded anyway."""
        mu = self.mu0.at(y)
        log_size = lambda coordinates: jnp.log(self.mu0.at(coordinates).size)

        def rate() -> Array:
            velocity = drift(self.noise, mu, self.dynamics.field(t, mu))
            return jax.jvp(log_size, (y,), (velocity,))[1]

        u = log_size(y)
        bounded = self.dynamics.linearly_bounded(t, mu)
        return u, jax.lax.cond(bounded, lambda: jnp.zeros_like(u), rate)
