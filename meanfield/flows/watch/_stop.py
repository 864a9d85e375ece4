"""Criteria that end a flow early: a bound, a steady state, or a registered one."""

import abc
import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree
from typing_extensions import override

from meanfield._array import positive
from meanfield._registry import Registry
from meanfield.endings import Status
from meanfield.errors import InvalidInputError

WINDOW = 8  # number of accepted steps over which a decay rate is measured
E_FOLDS = 2.0  # e-folds by which the speed must fall while the criterion holds


class Observation(NamedTuple):
    """The quantities that a stop can read after an accepted step.

    Examples:
        >>> from meanfield.flows import Observation
        >>> Observation._fields
        ('t', 'is_changing', 'size', 'speed', 'n_clusters')
    """

    t: Float[Array, ""]
    is_changing: Bool[Array, ""]  # whether parameters will jump later
    size: Float[Array, ""]
    speed: Float[Array, ""]
    n_clusters: Int[Array, ""]  # counted up to one more than stops ask for


class AbstractStop(eqx.Module):
    """A criterion that ends a flow early, which is a result and not an error.

    Examples:
        >>> from meanfield import BlowUp, Steady
        >>> from meanfield.flows import AbstractStop
        >>> isinstance(Steady(), AbstractStop), str(BlowUp(10.0).status)
        (True, 'blow-up')
    """

    @property
    @abc.abstractmethod
    def status(self) -> Status:
        """The status of a flow that this stop ends."""

    @property
    def needs_speed(self) -> bool:
        """Whether the stop reads the speed, which costs a field evaluation per step."""
        return False

    @property
    def most_clusters(self) -> int:
        """The number up to which the stop counts clusters; 0 if it does not."""
        return 0

    def start(self, observation: Observation, span: Float[Array, ""]) -> PyTree[Array]:
        """The initial memory, for a flow that lasts at most `span`; by default none."""
        del observation, span
        return ()

    @abc.abstractmethod
    def update(
        self, memory: PyTree[Array], observation: Observation
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        """The memory after a step, and whether the flow ends there."""


stops: Registry[Callable[[float], AbstractStop]] = Registry("stop")
"""Constructors of stops from one number, by the name in `stop = NAME:NUMBER`."""


class BlowUp(AbstractStop):
    """Ends a flow when its size (root of the second moment) exceeds `bound`.

    Finite-time blow-ups are detected without it, by their growth law. Like the
    bounds in published scripts, it also ends growth that is merely fast; then `t_star`
    is NaN.

    Attributes:
        bound: the bound on the size, in the units of the coordinates.

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

    @override
    def update(
        self, memory: PyTree[Array], observation: Observation
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        return memory, observation.size > self.bound


stops.register("size")(BlowUp)


class _SteadyMemory(NamedTuple):
    scale: Array  # size of the initial measure
    span: Array  # longest possible duration of the flow
    ts: Array
    log_speeds: Array
    n_points: Array
    entry_log_speed: Array  # log-speed when the criterion began to hold, or infinity


class Steady(AbstractStop):
    r"""Ends a flow when the remaining distance to its limit is negligible.

    A small right-hand side does not prove this: clusters creep for a long time. So the
    decay of the speed, exponential or algebraic, is measured over the last steps. The
    remaining distance that this decay implies must stay below `rtol` times the initial
    size while the speed falls by two e-folds, all after the last jump of parameters.
    A start at rest has no decay. Then the speed must not grow, and must be too small to
    move anything by more than rounding until the end of the flow. A metastable state,
    whose speed decays and later grows again, cannot be distinguished from rest.

    Attributes:
        rtol: tolerance on the remaining distance, relative to the initial size.

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
    def needs_speed(self) -> bool:
        return True

    @override
    def start(self, observation: Observation, span: Float[Array, ""]) -> PyTree[Array]:
        log_speed = jnp.log(observation.speed)
        return _SteadyMemory(
            jnp.where(observation.size > 0, observation.size, 1),
            span,
            jnp.full(WINDOW, observation.t),
            jnp.full(WINDOW, log_speed),
            jnp.asarray(1),
            jnp.full_like(log_speed, jnp.inf),
        )

    @override
    def update(
        self, memory: PyTree[Array], observation: Observation
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        ts = jnp.append(memory.ts[1:], observation.t)
        logs = jnp.append(memory.log_speeds[1:], jnp.log(observation.speed))
        eps = jnp.finfo(observation.speed.dtype).eps
        is_slow = observation.speed * memory.span <= 10 * eps * memory.scale
        is_at_rest = is_slow & (logs[-1] <= logs[0])
        is_near = is_at_rest | (
            observation.speed * _time_left(ts, logs) <= self.rtol * memory.scale
        )
        full = (memory.n_points + 1 >= WINDOW) & ~observation.is_changing
        first_log_speed = jnp.where(
            jnp.isposinf(memory.entry_log_speed), logs[-1], memory.entry_log_speed
        )
        entry_log_speed = jnp.where(is_near & full, first_log_speed, jnp.inf)
        is_settled = (
            is_near & full & (is_at_rest | (entry_log_speed - logs[-1] >= E_FOLDS))
        )
        n_points = jnp.minimum(memory.n_points + 1, WINDOW)
        state = _SteadyMemory(
            memory.scale, memory.span, ts, logs, n_points, entry_log_speed
        )
        return state, is_settled


stops.register("rest")(Steady)


class Clustered(AbstractStop):
    """Ends a flow of tokens when they form at most `count` clusters.

    A greedy search then covers all tokens by this many balls around tokens, whose
    radius is that of a cosine of 0.999. Tokens of weight zero are ignored. With steps
    in arclength, clusters are the tokens that have not merged. The space must be
    compact, such as `Sphere()`: elsewhere clusters have no scale.

    Attributes:
        count: the largest number of clusters, a whole number.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.flows import Clustered
        >>> from meanfield.spaces import Sphere
        >>> one = jnp.eye(2)
        >>> start = Points.uniform(one, space=Sphere())
        >>> softmax = attentions["softmax"](one, one, one)
        >>> run = flow(softmax, start, [0.0, 20.0], stop=Clustered(1))
        >>> print(run.status, bool(run.stop_time < 5))
        clustered True
    """

    count: int | float = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not (1 <= self.count < math.inf and self.count == int(self.count)):
            raise InvalidInputError(
                f"A number of clusters must be whole, at least 1; got {self.count:g}."
            )

    @property
    @override
    def status(self) -> Status:
        return Status.CLUSTERED

    @property
    @override
    def most_clusters(self) -> int:
        return int(self.count)

    @override
    def update(
        self, memory: PyTree[Array], observation: Observation
    ) -> tuple[PyTree[Array], Bool[Array, ""]]:
        return memory, observation.n_clusters <= self.count


stops.register("clusters")(Clustered)


def _time_left(ts: Float[Array, " window"], logs: Float[Array, " window"]) -> Array:
    r"""Remaining distance divided by the speed $v$; infinite unless the speed decays.

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
