"""Detection of finite-time blow-ups from the growth of the size in adaptive steps."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from ._detector import Attempt, where
from ._extrapolation import extrapolate_state, is_law_confirmed, log_rate
from ._growth import time_to_grow
from ._growth_monitor import OVERFLOW_MARGIN, AbstractGrowthDetector, Growth

T = TypeVar("T")


class _Jump(NamedTuple):
    """A jump of the parameters, compared with the time of a possible blow-up."""

    speed_before: Float[Array, ""]  # speed of the state just before the jump
    speed_after: Float[Array, ""]
    is_continuous: Bool[Array, ""]  # whether velocities are continuous at the jump
    is_after: Bool[Array, ""]  # whether the jump is later than t_star plus its error
    is_within: Bool[Array, ""]  # whether the jump is within the error bar of t_star


class GrowthDetector(AbstractGrowthDetector):
    """Detects a finite-time blow-up by growth that the field confirms far ahead."""

    @override
    def update(self, memory: Growth, step: Attempt) -> tuple[Growth, Bool[Array, ""]]:
        growth, asks = self.observe(memory, step)
        y, t = _last_state(step)
        is_continued = jnp.where(
            asks, self.is_law_continued(growth, y, t, asks), growth.is_law_continued
        )
        growth = growth._replace(is_law_continued=is_continued)
        claims = growth.is_near & is_continued
        if not self.dynamics.jumps.shape[0]:
            return growth, claims
        jump = self._next_jump(growth, step, claims)
        # A flow may stay finite if its parameters jump before it would have blown up.
        precedes = jump.is_after | (step.is_too_short & jump.is_continuous)
        restarts = step.keep & step.jump & ~jump.is_continuous
        crosses = restarts & claims & jump.is_within
        growth = growth._replace(is_unsure=growth.is_unsure | crosses)
        growth = where(restarts, self._restart(growth, step, jump), growth)
        return growth, claims & precedes

    def _restart(self, growth: Growth, step: Attempt, jump: _Jump) -> Growth:
        """The memory after a jump, where a new growth law begins.

        The error of the state is the time shift times the speed before the jump, plus
        the errors of all steps. Divided by the speed after the jump, this is the new
        shift.
        """
        fresh = self.start(step.t, step.y, growth.rtol)
        size = jnp.exp(fresh.log_size)
        state_error = growth.time_shift * jump.speed_before + growth.error * size
        return fresh._replace(
            time_shift=state_error / jump.speed_after,
            error=growth.error,
            is_unsure=growth.is_unsure,
        )

    def _next_jump(self, growth: Growth, step: Attempt, claims: Array) -> _Jump:
        """The next jump of parameters, and the speeds of the state on both sides.

        Until a step reaches the jump, the speeds of the initial state are used.
        """
        arrives = step.keep & step.jump
        t = self._end_of_layer(_last_state(step)[1])
        mu = self.mu0.replace_coordinates(where(arrives, step.y, self.mu0.coordinates))
        velocity = lambda t: mu.transport(self.dynamics.field(t, mu))

        def look() -> _Jump:
            times = jnp.stack([jnp.nextafter(t, -jnp.inf), t, growth.begin])
            v, limits = jax.lax.map(velocity, times), jnp.finfo(t.dtype)
            parts = [jax.tree.map(lambda leaf, k=k: leaf[k], v) for k in range(3)]
            change = mu.norm(jax.tree.map(jnp.subtract, parts[1], parts[0]))
            # Speeds are divisors, so they are kept positive even at rest.
            speed_before, speed_after, start_speed = (
                jnp.maximum(mu.norm(part), limits.tiny**0.5) for part in parts
            )
            fastest = jnp.maximum(speed_before, start_speed)
            is_continuous = change <= limits.eps**0.5 * fastest
            t_star, error = self.estimate_blow_up(growth)
            is_after, is_before = t_star + error < t, t < t_star - error
            is_within = ~(is_after | is_before)
            return _Jump(speed_before, speed_after, is_continuous, is_after, is_within)

        false, zero = jnp.zeros((), bool), jnp.zeros_like(t)
        return _evaluate_if(
            arrives | claims, look, _Jump(zero, zero, false, false, false)
        )

    def _end_of_layer(self, t: Array) -> Array:
        """The first jump of parameters after `t`; infinite if there is none."""
        jumps = self.dynamics.jumps.astype(t.dtype)
        return jnp.min(jumps, where=jumps > t, initial=jnp.inf)

    def is_law_continued(
        self, growth: Growth, y: PyTree[Array], t: Array, asks: Array
    ) -> Bool[Array, ""]:
        """Whether the field follows the law at larger states and has no linear bound.

        Near overflow no larger state can be represented, and the last answer is kept.

        Args:
            growth: the memory after the last step.
            y: the last state.
            t: its time.
            asks: whether the answer is needed; otherwise the field is not evaluated.
        """
        record, size = growth.record, self.mu0.replace_coordinates(y).size
        layer = jnp.nextafter(self._end_of_layer(t), -jnp.inf)

        def extrapolate(share: Array) -> tuple[Array, Array]:
            """E-folds of size to an extrapolated state, and its log growth rate."""
            mu = self.mu0.replace_coordinates(
                extrapolate_state(self.mu0, y, growth.increment, share)
            )
            e_folds = jnp.log(mu.size) - jnp.log(size)
            arrival_time = jnp.minimum(t + time_to_grow(record, e_folds), layer)
            return e_folds, log_rate(
                mu, mu.transport(self.dynamics.field(arrival_time, mu))
            )

        confirm = lambda: is_law_confirmed(record, extrapolate)
        is_bounded = self.dynamics.is_linearly_bounded(t, self.mu0)
        is_continued = _evaluate_if(asks & ~is_bounded, confirm, jnp.zeros((), bool))
        return jnp.where(
            self.headroom(y) > OVERFLOW_MARGIN,
            is_continued,
            ~is_bounded & growth.is_law_continued,
        )


def _last_state(step: Attempt) -> tuple[PyTree[Array], Array]:
    """The state after an attempted step and its time, also if the step is rejected."""
    t = jnp.where(step.keep, step.t, step.t - step.dt)
    return where(step.keep, step.y, step.y0), t


def _evaluate_if(condition: Array, answer: Callable[[], T], otherwise: T) -> T:
    """The result of `answer` if the condition holds, and `otherwise` if not.

    A loop of at most one pass takes the place of `lax.cond`, which under `vmap` would
    compute the answer at every step. The loop computes it only if the condition holds
    for some member.
    """

    def evaluate(_: tuple[Array, T]) -> tuple[Array, T]:
        return jnp.zeros((), bool), answer()

    needs_answer = lambda state: state[0]
    return jax.lax.while_loop(needs_answer, evaluate, (condition, otherwise))[1]
