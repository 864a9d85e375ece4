"""When a flow may end early: at a bound, at a steady state, or as registered."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield._array import positive
from meanfield._registry import Registry
from meanfield.endings import Status

WINDOW = 8  # accepted steps over which a decay rate is measured
E_FOLDS = 2.0  # by which the speed must fall while the criterion holds


class Seen(NamedTuple):
    """What a stop may look at after an accepted step.

    Examples:
        >>> from meanfield.flows import Seen
        >>> Seen._fields
        ('t', 'changing', 'size', 'speed')
    """

    t: Float[Array, ""]
    changing: Bool[Array, ""]  # whether parameters will still change
    size: Float[Array, ""]
    speed: Float[Array, ""]


class AbstractStop(eqx.Module):
    """A criterion that ends a flow early; ending by it is a result, not an error.

    Examples:
        >>> from meanfield import BlowUp, Steady
        >>> from meanfield.flows import AbstractStop
        >>> isinstance(Steady(), AbstractStop), str(BlowUp(10.0).status)
        (True, 'blow-up')
    """

    @property
    @abc.abstractmethod
    def status(self) -> Status:
        """The ending it gives."""

    @property
    @abc.abstractmethod
    def watches_speed(self) -> bool:
        """Whether it reads the speed, which costs one field for each step."""

    @abc.abstractmethod
    def start(self, seen: Seen, span: Float[Array, ""]) -> PyTree[Array]:
        """Its memory at the start of a flow that may last `span`."""

    @abc.abstractmethod
    def update(
        self, memory: PyTree[Array], seen: Seen
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        """Its memory after a step, and whether the flow ends here."""


stops: Registry[Callable[[float], AbstractStop]] = Registry("stop")
"""What makes a stop from its one number, by the name that `stop = NAME:NUMBER` has."""


class BlowUp(AbstractStop):
    """Ends where the size (root of the second moment) passes `bound`.

    A finite-time blow-up is found without it, by its growth law; a bound also ends
    growth that is merely fast, as published scripts do, and then gives no `t_star`.

    Attributes:
        bound: on the norm of the coordinates, in their units.

    Examples:
        >>> from meanfield import BlowUp, Drift, Gaussian, flow
        >>> growth, one = Drift(jnp.eye(1)), jnp.eye(1)
        >>> run = flow(
        ...     growth, Gaussian(jnp.zeros(1), one), [0.0, 9.0], stop=BlowUp(100.0)
        ... )
        >>> print(run.status, bool(run.stop_time >= np.log(100)), run.t_star)
        blow-up True nan
    """

    bound: float

    def __check_init__(self) -> None:
        positive("bound", self.bound)

    @property
    @override
    def status(self) -> Status:
        return Status.BLOW_UP

    @property
    @override
    def watches_speed(self) -> bool:
        return False

    @override
    def start(self, seen: Seen, span: Float[Array, ""]) -> PyTree[Array]:
        del seen, span
        return ()

    @override
    def update(
        self, memory: PyTree[Array], seen: Seen
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        return memory, seen.size > self.bound


stops.register("size")(BlowUp)


class _Settling(NamedTuple):
    scale: Array  # size at the start
    span: Array  # time that the flow may last
    ts: Array
    log_speeds: Array
    held: Array
    entered: Array  # log-speed when the criterion began to hold; inf outside


class Steady(AbstractStop):
    r"""Ends where the rest of the way is negligible, and stays so.

    A small right-hand side is no proof of rest: clusters creep for long times. Here the
    decay of the speed is measured over the last steps, exponential or algebraic, and
    the way left that follows must stay below `rtol` of the initial size while the speed
    falls
    by two e-folds, after the last change of parameters. A start at rest has no decay:
    there the speed must not grow, and be too small to move anything by more than
    rounding in all the time asked for. A metastable state whose speed decays and later
    grows again cannot be told from rest.

    Attributes:
        rtol: the way left, relative to the initial size.

    Examples:
        >>> from meanfield import Drift, Gaussian, Steady, flow
        >>> pull, one = Drift(-jnp.eye(1)), jnp.eye(1)
        >>> run = flow(
        ...     pull, Gaussian(jnp.zeros(1), one), [0.0, 100.0], stop=Steady(1e-4)
        ... )
        >>> print(run.status, bool(run.stop_time < 20))
        steady True
    """

    rtol: float = 1e-6

    def __check_init__(self) -> None:
        positive("rtol", self.rtol)

    @property
    @override
    def status(self) -> Status:
        return Status.STEADY

    @property
    @override
    def watches_speed(self) -> bool:
        return True

    @override
    def start(self, seen: Seen, span: Float[Array, ""]) -> PyTree[Array]:
        log_speed = jnp.log(seen.speed)
        return _Settling(
            jnp.where(seen.size > 0, seen.size, 1),
            span,
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
        eps = jnp.finfo(seen.speed.dtype).eps
        calm = seen.speed * memory.span <= 10 * eps * memory.scale
        still = calm & (logs[-1] <= logs[0])
        near = still | (seen.speed * _time_left(ts, logs) <= self.rtol * memory.scale)
        full = (memory.held + 1 >= WINDOW) & ~seen.changing
        begun = jnp.where(jnp.isposinf(memory.entered), logs[-1], memory.entered)
        entered = jnp.where(near & full, begun, jnp.inf)
        settled = near & full & (still | (entered - logs[-1] >= E_FOLDS))
        held = jnp.minimum(memory.held + 1, WINDOW)
        state = _Settling(memory.scale, memory.span, ts, logs, held, entered)
        return state, settled


stops.register("rest")(Steady)


def _time_left(ts: Float[Array, " window"], logs: Float[Array, " window"]) -> Array:
    r"""The way left over the speed $v$, from the decay of $\log v$; inf if none.

    With the decay time $\tau = -v/v'$ and its rate of change $q = \tau'$, both from the
    two halves of the window, $\int v = v \tau / (1 - q)$: exact for exponential decay
    ($q = 0$) and for a power $t^{-p}$ ($q = 1/p$).
    """
    half = WINDOW // 2
    ends = ts[jnp.array([0, half])], ts[jnp.array([half - 1, WINDOW - 1])]
    times, middles = ends[1] - ends[0], (ends[0] + ends[1]) / 2
    falls = logs[jnp.array([0, half])] - logs[jnp.array([half - 1, WINDOW - 1])]
    tau = times / falls
    q = jnp.maximum((tau[1] - tau[0]) / (middles[1] - middles[0]), 0)
    decays = (falls[0] > 0) & (falls[1] > 0) & (q < 1)
    return jnp.where(decays, tau[1] / jnp.where(decays, 1 - q, 1), jnp.inf)
