"""A class for each kind of measure, with everything that a run must know about it."""

import abc
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._registry import Registry
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.flows import AbstractStepping, has_bound
from meanfield.measures import AbstractMeasure, AbstractReader, Cells, Gaussian, Points
from meanfield.runs.records._endings import Outcome
from meanfield.spec import GridSpec, StartSpec
from meanfield.storage import kinds

from ._start import Start, Steps
from ._sums import Size, describe_sums

M = TypeVar("M", bound=AbstractMeasure)
Arrays = dict[str, np.ndarray]
Frame = Mapping[str, np.ndarray]


class AbstractRepresentation(abc.ABC, Generic[M]):
    """How runs handle a kind of measure, from the spec to the report.

    To add a kind, write a subclass with `name`, `kind`, `noun`, `space_variable`,
    `from_tokens` and `restore`. Everything else has a default.

    Examples:
        >>> from meanfield.runs import AbstractRepresentation
        >>> from meanfield.runs.representations import representations
        >>> sorted(representations)
        ['circle', 'gaussian', 'grid', 'points', 'zonal']
        >>> isinstance(representations["points"], AbstractRepresentation)
        True
    """

    name: ClassVar[str]
    """The name of the representation in specs and stores."""

    kind: ClassVar[type[AbstractMeasure]]
    """The class of the represented measures."""

    noun: ClassVar[str]
    """The name of the representation in messages, without an article."""

    space_variable: ClassVar[str]
    """A stored variable whose last axis has the dimension of the space."""

    counts_tokens: ClassVar[bool] = True
    """Whether the key `n` is the number of tokens of a measure."""

    shares_tokens: ClassVar[bool] = False
    """Whether several devices can share the tokens of a measure."""

    start_type: ClassVar[Literal["tokens", "moments", "law"]] = "law"
    """Part of a start that comparisons use: tokens, their moments, or their law."""

    needs_start: ClassVar[bool] = False
    """Whether the error bars computed at the end (`estimate_errors`) need the start."""

    static_names: ClassVar[tuple[str, ...]] = ()
    """The stored variables that do not move, including optional ones."""

    approximation: ClassVar[str] = ""
    """Why the representation approximates the flow of the law; empty if it is exact."""

    is_drawn: ClassVar[bool] = True
    """Whether draws of one law differ even if nothing else is random."""

    def from_law(self, start: Start) -> M:
        """The initial measure for a law; by default, from tokens drawn from it.

        Raises:
            InvalidInputError: if keys contradict each other.
            UnknownNameError: if `init` is not the name of a cloud.
        """
        return self.from_tokens(start, start.cloud)

    @abc.abstractmethod
    def from_tokens(self, start: Start, points: Points) -> M:
        """The initial measure for tokens from a file or a draw.

        Raises:
            InvalidInputError: if this kind cannot represent them.
        """

    def from_frame(self, start: Start, mu: AbstractMeasure) -> M:
        """The initial measure of a run that starts from a frame of another run.

        Raises:
            InvalidInputError: if this kind cannot start from such a frame; by default,
                if the frame holds another kind of measure.
        """
        if representation_of(mu) is not self:
            raise other_kind_error(start, mu)
        return cast(M, mu)

    def draws_tokens(self, init: str) -> bool:
        """Whether a start from the cloud `init` draws `n` tokens."""
        del init
        return self.counts_tokens

    def n_cells(self, start: Start) -> int:
        """The number of cells that a run will have; checks its keys first.

        Raises:
            InvalidInputError: if a key has no effect on this kind.
        """
        del start
        return 0

    def default_keys(
        self, start: Start, source: Callable[[], AbstractMeasure | None]
    ) -> dict[str, Any]:
        """Default values of keys that depend on the start, to be stored with the run.

        Args:
            start: the start of the run.
            source: a function that returns the initial tokens or stored frame, if any.
        """
        del start, source
        return {}

    @property
    def moving(self) -> tuple[str, ...]:
        """The stored variables that move, in the order of the coordinates."""
        return kinds[self.name].moving

    def arrays(self, frame: Mapping[Any, Any]) -> Arrays:
        """The stored arrays in a frame of a dataset, by name."""
        names = (*self.moving, *self.static_names)
        return {name: frame[name].values for name in names if name in frame}

    def frames(self, mu: M, coordinates: PyTree[Array]) -> Arrays:
        """Converts the coordinates of measures like `mu` to named arrays."""
        del mu
        parts = jax.tree.leaves(coordinates)
        return dict(zip(self.moving, map(np.asarray, parts), strict=True))

    def coordinates(self, mu: M, frames: Frame) -> PyTree[Array]:
        """Converts stored frames to coordinates like those of `mu`; undoes `frames`."""
        parts = [frames[name] for name in self.moving]
        where = jax.tree.structure(mu.coordinates)
        return jax.tree.unflatten(where, jax.device_put(parts))

    def static(self, mu: M) -> Arrays:
        """The arrays that do not move, by name; by default, attributes of `mu`."""
        names = kinds[self.name].static
        return {name: np.asarray(getattr(mu, name)) for name in names}

    def dims(self, mu: M) -> dict[str, tuple[str, ...]]:
        """The dimensions of variables whose names do not determine them."""
        del mu
        return dict(kinds[self.name].dims)

    @abc.abstractmethod
    def restore(self, start: Start, frame: Frame, static: Frame) -> M:
        """The measure of a stored frame; equal arrays give bit-identical measures."""

    def moments(self, mu: M) -> tuple[np.ndarray, np.ndarray]:
        """The mean and covariance of a measure."""
        mean, covariance = _moments(mu)
        return np.asarray(mean), np.asarray(covariance)

    def stepping(
        self, steps: Steps, ts: Float[np.ndarray, " times"], dynamics: AbstractDynamics
    ) -> AbstractStepping:
        """The steps of a flow with frames at `ts`; see `Steps.solver_stepping`."""
        del dynamics
        return steps.solver_stepping(ts, solver=steps.solver, fixed_solver="euler")

    def size(self, mu: M) -> Size:
        """The numbers of tokens and cells of a measure, from its shapes."""
        return _Size()(mu)

    def full_size(self, start: Start, size: Size) -> Size:
        """The full size of a measure, given the size of a sketch with few tokens."""
        del start
        return size

    def sketch(self, mu: M) -> M:
        """A small measure with the same structure, whose sums are not interpolated."""
        return mu

    def estimate_errors(
        self,
        start: Start,
        steps: Steps,
        dynamics: AbstractDynamics,
        *,
        measures: tuple[M, M],
        start_time: float,
        outcome: Outcome,
    ) -> Outcome:
        """The outcome of a flow, with error estimates of its final state, if any.

        Args:
            start: the start of the flow.
            steps: the settings of its steps.
            dynamics: the dynamics of the flow.
            measures: the initial and the final measure.
            start_time: the initial time.
            outcome: the outcome without estimates.
        """
        del start, steps, dynamics, measures, start_time
        return outcome

    def report(
        self,
        measures: tuple[M, ...],
        outcomes: tuple[Outcome, ...],
        keys: GridSpec,
        *,
        is_family: bool,
    ) -> dict[str, Any]:
        """Entries of a run's report that are specific to this kind, as JSON values."""
        del measures, outcomes, keys, is_family
        return {}

    def observables(self, first: M, last: M) -> dict[str, float]:
        """Columns of a sweep, in addition to moments, that are specific to this kind.

        Args:
            first: the initial measure.
            last: the final measure.
        """
        del first, last
        return {}

    def step_advice(self, steps: Steps) -> str:
        """Advice for a run that has used all its steps."""
        if steps.solver == "kvaerno5" or steps.noise:
            return "raise `max_steps` or `rtol`, or lower `t`"
        return "if the flow is stiff, `--solver kvaerno5` takes fewer steps"

    def has_normal_tails(self, keys: StartSpec) -> bool:
        """Whether velocities are averaged over a Gaussian law, including its tails."""
        return keys.projected

    def sample_size(self, mu: M) -> float:
        """Effective sample size; infinite for a measure that is not a sample."""
        del mu
        return math.inf

    tokens_note: ClassVar[str] = "starts as the tokens"
    """A comparison's note on how this representation starts from given tokens."""

    def outflow(self, mu: M) -> float:
        """The mass that has left the grid; zero for other kinds."""
        del mu
        return 0.0

    def has_positions(self, mu: M) -> bool:
        """Whether the tokens or cells of `mu` have positions."""
        del mu
        return False


representations: Registry[AbstractRepresentation[Any]] = Registry("measure")


def representation_of(mu: AbstractMeasure) -> AbstractRepresentation[Any]:
    """The representation of a measure, by its class or the nearest base class.

    Raises:
        UnsupportedError: if none is registered.
    """
    for candidates in (representations.objects, representations.values()):
        registry = {candidate.kind: candidate for candidate in candidates}
        kind = next((kind for kind in type(mu).mro() if kind in registry), None)
        if kind is not None:
            return registry[kind]
    raise UnsupportedError(
        f"The measure of a run must be one of {', '.join(representations)}; got a "
        f"{type(mu).__name__}."
    )


def other_kind_error(start: Start, mu: AbstractMeasure) -> InvalidInputError:
    """The error for a run that cannot start from a frame with this kind of measure."""
    representation, source = representation_of(mu), start.keys.source
    return InvalidInputError(
        f"`{source}` holds a {representation.noun}; use "
        f"`measure = {representation.name}`."
    )


def representation_in(frame: Iterable[object]) -> AbstractRepresentation[Any]:
    """The representation whose moving variables are all in a frame.

    Raises:
        InvalidInputError: if there is none.
    """
    names = set(frame)
    candidates = [
        name for name in representations if names.issuperset(kinds[name].moving)
    ]
    if not candidates:
        raise InvalidInputError(
            f"The variables {', '.join(sorted(map(str, names)))} belong to none of the "
            f"measures {', '.join(representations)}; load others with `--plugin`."
        )
    return representations[max(candidates, key=lambda name: len(kinds[name].moving))]


def frame_of(mu: AbstractMeasure) -> Arrays:
    """The moving arrays of a measure, by their stored names."""
    return representation_of(mu).frames(mu, mu.coordinates)


def constant_frames(mu: AbstractMeasure, n_frames: int) -> Arrays:
    """Frames of a measure that no longer moves: `n_frames` equal copies."""
    arrays = frame_of(mu).items()
    return {name: np.broadcast_to(a, (n_frames, *a.shape)) for name, a in arrays}


def dimension_in(frame: Frame) -> int:
    """The dimension of the space of a stored frame, with its static arrays."""
    return frame[representation_in(frame).space_variable].shape[-1]


def moments_of(mu: AbstractMeasure) -> tuple[np.ndarray, np.ndarray]:
    """The mean and covariance of any measure.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.runs import moments_of
        >>> mean, covariance = moments_of(Points.uniform([[-1.0], [1.0]]))
        >>> print(mean, covariance)
        [0.] [[1.]]
    """
    return representation_of(mu).moments(mu)


def largest_eigenvalue(mu: AbstractMeasure) -> float:
    """The largest eigenvalue of the covariance; infinite if an entry overflows."""
    covariance = moments_of(mu)[1]
    if not np.all(np.isfinite(covariance)):
        return math.inf
    return float(np.linalg.eigvalsh(covariance)[-1])


class _Size(AbstractReader[Size]):
    """Computes the size of a measure, with zero tokens for a Gaussian."""

    @override
    def read_points(self, mu: Points) -> Size:
        return Size(mu.tokens.n, 0, mu.dimension, mu.reduction)

    @override
    def read_gaussian(self, mu: Gaussian) -> Size:
        return Size(0, 0, mu.dimension, None)


@eqx.filter_jit
def _moments(mu: Any) -> tuple[Array, Array]:
    return mu.mean, mu.covariance


def sums_of(mu: AbstractMeasure, dynamics: AbstractDynamics) -> str:
    """How sums over tokens or cells are computed, or `none` if there are no sums."""
    return describe_sums(representation_of(mu).size(mu).reduction, dynamics)


def has_error_bound(mu: AbstractMeasure, dynamics: AbstractDynamics) -> bool:
    """Whether the error of interpolated sums has a bound, not only an estimate."""
    reduction = representation_of(mu).size(mu).reduction
    return isinstance(reduction, Cells) and has_bound(dynamics, mu)
