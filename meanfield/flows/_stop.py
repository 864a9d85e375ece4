"""When a flow may end early: at a bound, or at a steady state."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from ._trajectory import Status

WINDOW = 8  # accepted steps over which a decay rate is measured
E_FOLDS = 2.0  # by which the speed must fall while the criterion holds


class Seen(NamedTuple):
    """What a stop may look at after an accepted step."""

    t: Float[Array, ""]
    size: Float[Array, ""]
    speed: Float[Array, ""]


class AbstractStop(eqx.Module):
    """A criterion that ends a flow early; ending by it is a result, not an error."""

    @property
    @abc.abstractmethod
    def status(self) -> Status:
        """The ending it gives."""

    @property
    @abc.abstractmethod
    def watches_speed(self) -> bool:
        """Whether it reads the speed, which costs one field for each step."""

    @abc.abstractmethod
    def start(self, seen: Seen) -> PyTree[Array]:
        """Its memory at the start."""

    @abc.abstractmethod
    def update(
        self, memory: PyTree[Array], seen: Seen
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        """Its memory after a step, and whether the flow ends here."""


class BlowUp(AbstractStop):
    """Ends where the size (root of the second moment) passes `bound`.

    A finite-time blow-up is found without it, by its growth law; a bound also ends
    growth that is merely fast, as published scripts do, and then gives no `t_star`.

    Attributes:
        bound: on the norm of the coordinates, in their units.
    """

    bound: float

    @property
    @override
    def status(self) -> Status:
        return Status.BLOW_UP

    @property
    @override
    def watches_speed(self) -> bool:
        return False

    @override
    def start(self, seen: Seen) -> PyTree[Array]:
        del seen
        return ()

    @override
    def update(
        self, memory: PyTree[Array], seen: Seen
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        return memory, seen.size > self.bound


class _Settling(NamedTuple):
    scale: Array  # size at the start
    since: Array  # time of the start
    ts: Array
    log_speeds: Array
    held: Array
    entered: Array  # log-speed when the criterion began to hold; inf outside


class Steady(AbstractStop):
    r"""Ends where the rest of the way is negligible, and stays so.

    A small right-hand side is no proof of rest: clusters creep for long times. Here the
    decay rate $\lambda$ of the speed $v$ is measured over the last steps, the way left is
    $v/\lambda$, and it must stay below `rtol` of the initial size while the speed falls
    by two e-folds (or is zero to rounding). A metastable state whose speed
    decays and later grows again cannot be told from rest.

    Attributes:
        rtol: the way left, relative to the initial size.
    """

    rtol: float = 1e-6

    @property
    @override
    def status(self) -> Status:
        return Status.STEADY

    @property
    @override
    def watches_speed(self) -> bool:
        return True

    @override
    def start(self, seen: Seen) -> PyTree[Array]:
        log_speed = jnp.log(seen.speed)
        return _Settling(
            seen.size,
            seen.t,
            jnp.full(WINDOW, seen.t),
            jnp.full(WINDOW, log_speed),
            jnp.asarray(1),
            jnp.full_like(log_speed, jnp.inf),
        )

    @override
    def update(
        self, memory: PyTree[Array], seen: Seen
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        ts = jnp.append(memory.ts[1:], seen.t)
        logs = jnp.append(memory.log_speeds[1:], jnp.log(seen.speed))
        rate = (logs[0] - logs[-1]) / (ts[-1] - ts[0])
        eps = jnp.finfo(seen.speed.dtype).eps
        elapsed = seen.t - memory.since
        # A speed at rounding level over all the time elapsed has no rate to measure.
        still = seen.speed * elapsed <= 10 * eps * memory.scale
        near = still | ((rate > 0) & (seen.speed <= self.rtol * memory.scale * rate))
        full = memory.held + 1 >= WINDOW
        begun = jnp.where(jnp.isposinf(memory.entered), logs[-1], memory.entered)
        entered = jnp.where(near & full, begun, jnp.inf)
        settled = near & full & (still | (entered - logs[-1] >= E_FOLDS))
        held = jnp.minimum(memory.held + 1, WINDOW)
        state = _Settling(memory.scale, memory.since, ts, logs, held, entered)
        return state, settled
