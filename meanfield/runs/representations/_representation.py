"""What a run needs of one kind of measure: a class for each, one home for all of it."""

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
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Cells,
    Gaussian,
    Points,
)
from meanfield.runs.records._endings import Outcome
from meanfield.spec import GridSpec, StartSpec
from meanfield.storage import kinds

from ._start import Start, Steps
from ._sums import Size, describe_sums

M = TypeVar("M", bound=AbstractMeasure)
Arrays = dict[str, np.ndarray]
Frame = Mapping[str, np.ndarray]


class AbstractRepresentation(abc.ABC, Generic[M]):
    """A kind of measure, from the spec of a run to its report.

    To add one, write a measure, and here the four names below, `of_tokens` and
    `restore`. All else has a default.

    Examples:
        >>> from meanfield.runs import AbstractRepresentation
        >>> from meanfield.runs.representations import representations
        >>> sorted(representations)
        ['gaussian', 'grid', 'points']
        >>> isinstance(representations["points"], AbstractRepresentation)
        True
    """

    name: ClassVar[str]
    """What specs and stores call it."""

    kind: ClassVar[type[AbstractMeasure]]
    """The class of its measures."""

    noun: ClassVar[str]
    """What messages call it, without an article."""

    place: ClassVar[str]
    """The stored variable whose last axis is that of the space."""

    counts_tokens: ClassVar[bool] = True
    """Whether `n` of a spec counts its tokens."""

    shares_tokens: ClassVar[bool] = False
    """Whether it has tokens that devices can share."""

    begins_with: ClassVar[Literal["tokens", "moments", "law"]] = "law"
    """What it takes of the law of a start where it is compared with others."""

    remembers_start: ClassVar[bool] = False
    """Whether the error bars computed at the end (`estimate_errors`) need the start."""

    static_names: ClassVar[tuple[str, ...]] = ()
    """The stored variables that do not move, those that a run may lack included."""

    approximation: ClassVar[str] = ""
    """Why what it follows is not the flow of the law itself; empty where it is."""

    is_drawn: ClassVar[bool] = True
    """Whether draws of one law differ, whatever else is drawn."""

    def of_law(self, start: Start) -> M:
        """The start that a law describes: by default, of tokens that are drawn.

        Raises:
            InvalidInputError: if keys do not fit together.
            UnknownNameError: if no cloud has the name of `init`.
        """
        return self.of_tokens(start, start.cloud)

    @abc.abstractmethod
    def of_tokens(self, start: Start, points: Points) -> M:
        """What stands for tokens that were given, or drawn.

        Raises:
            InvalidInputError: if it cannot hold them.
        """

    def of_frame(self, start: Start, mu: AbstractMeasure) -> M:
        """What goes on from a frame of another run: by default, of this kind alone.

        Raises:
            InvalidInputError: if a measure of its kind cannot.
        """
        if representation_of(mu) is not self:
            raise other_kind(start, mu)
        return cast(M, mu)

    def draws_tokens(self, init: str) -> bool:
        """Whether a start from the cloud `init` is as many tokens as `n` says."""
        del init
        return self.counts_tokens

    def n_cells(self, start: Start) -> int:
        """How many cells it would have; keys that do nothing are refused.

        Raises:
            InvalidInputError: naming a key.
        """
        del start
        return 0

    def in_full(
        self, start: Start, source: Callable[[], AbstractMeasure | None]
    ) -> dict[str, Any]:
        """The keys that such a run has by default, for all that goes on from it.

        Args:
            start: that of the run.
            source: makes the tokens, or the stored frame, that it starts from, if any.
        """
        del start, source
        return {}

    @property
    def moving(self) -> tuple[str, ...]:
        """The stored variables that move, in the order of its coordinates."""
        return kinds[self.name].moving

    def arrays(self, frame: Mapping[Any, Any]) -> Arrays:
        """The arrays of a frame of a dataset, by name."""
        names = (*self.moving, *self.static_names)
        return {name: frame[name].values for name in names if name in frame}

    def frames(self, mu: M, coordinates: PyTree[Array]) -> Arrays:
        """Coordinates of a measure like `mu`, or a stack of them, named."""
        del mu
        parts = jax.tree.leaves(coordinates)
        return dict(zip(self.moving, map(np.asarray, parts), strict=True))

    def coordinates(self, mu: M, frames: Frame) -> PyTree[Array]:
        """What `frames` named, as coordinates of a measure like `mu`."""
        parts = [frames[name] for name in self.moving]
        where = jax.tree.structure(mu.coordinates)
        return jax.tree.unflatten(where, jax.device_put(parts))

    def static(self, mu: M) -> Arrays:
        """What does not move, named: by default, attributes of the measure."""
        fixed = kinds[self.name].fixed
        return {name: np.asarray(getattr(mu, name)) for name in fixed}

    def dims(self, mu: M) -> dict[str, tuple[str, ...]]:
        """The dimensions of variables that depend on more than their name."""
        del mu
        return dict(kinds[self.name].dims)

    @abc.abstractmethod
    def restore(self, start: Start, frame: Frame, static: Frame) -> M:
        """The measure of a stored frame; the same arrays give the same bits."""

    def moments(self, mu: M) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        mean, covariance = _moments(mu)
        return np.asarray(mean), np.asarray(covariance)

    def stepping(
        self,
        steps: Steps,
        ts: Float[np.ndarray, " times"],
        dynamics: AbstractDynamics,
    ) -> AbstractStepping:
        """The steps of a flow through `ts`; see `Steps.by_error`."""
        del dynamics
        return steps.by_error(ts, solver=steps.solver, of_fixed="euler")

    def size(self, mu: M) -> Size:
        """How much of it there is, by the shapes of its arrays."""
        return _Size()(mu)

    def size_in_full(self, start: Start, size: Size) -> Size:
        """The size of a start, of whose tokens a few stood for all."""
        del start
        return size

    def sketch(self, mu: M) -> M:
        """A small measure of the same shapes, that asks for no plan."""
        return mu

    def estimate_errors(
        self,
        start: Start,
        steps: Steps,
        dynamics: AbstractDynamics,
        *,
        measures: tuple[M, M],
        since: float,
        outcome: Outcome,
    ) -> Outcome:
        """How a flow ended, with what is in doubt of it.

        Args:
            start: what it began with.
            steps: those it was integrated by.
            dynamics: what moved it.
            measures: where it began, and where it ended.
            since: when it began.
            outcome: how it ended.
        """
        del start, steps, dynamics, measures, since
        return outcome

    def report(
        self,
        measures: tuple[M, ...],
        outcomes: tuple[Outcome, ...],
        keys: GridSpec,
        *,
        is_family: bool,
    ) -> dict[str, Any]:
        """What the report of a run says besides what all runs say, as JSON values."""
        del measures, outcomes, keys, is_family
        return {}

    def observables(self, first: M, last: M) -> dict[str, float]:
        """Numbers of the last state besides its moments, by name, for a sweep.

        Args:
            first: the measure that the flow began with.
            last: the measure that it ended with.
        """
        del first, last
        return {}

    def out_of_steps(self, steps: Steps) -> str:
        """What may help where all steps of a run were spent."""
        if steps.solver == "kvaerno5" or steps.noise:
            return "raise `max_steps` or `rtol`, or lower `t`"
        return "where the flow is stiff, `--solver kvaerno5` takes fewer"

    def has_normal_tails(self, keys: StartSpec) -> bool:
        """Whether velocities are averaged over a normal law, tails and all."""
        return keys.projected

    def sample_size(self, mu: M) -> float:
        """How many tokens of equal weight would be as random; infinite of a law."""
        del mu
        return math.inf

    stands_for_tokens: ClassVar[str] = "starts as the tokens"
    """How it starts where tokens are given, as a comparison notes it."""

    def lost(self, mu: M) -> float:
        """The mass that has left it."""
        del mu
        return 0.0

    def has_positions(self, mu: M) -> bool:
        """Whether its parts have positions."""
        del mu
        return False


representations: Registry[AbstractRepresentation[Any]] = Registry("measure")


def representation_of(mu: AbstractMeasure) -> AbstractRepresentation[Any]:
    """The representation of a measure: of the nearest class that is registered.

    Raises:
        UnsupportedError: if none is registered for its class.
    """
    homes = {home.kind: home for home in representations.values()}
    kind = next((kind for kind in type(mu).mro() if kind in homes), None)
    if kind is None:
        raise UnsupportedError(
            f"A run moves {', '.join(representations)}; got a {type(mu).__name__}."
        )
    return homes[kind]


def other_kind(start: Start, mu: AbstractMeasure) -> InvalidInputError:
    """The error of a run that cannot go on from such a measure."""
    home, source = representation_of(mu), start.keys.source
    return InvalidInputError(
        f"`{source}` holds a {home.noun}; go on with `measure = {home.name}`."
    )


def representation_in(frame: Iterable[object]) -> AbstractRepresentation[Any]:
    """The representation whose variables are among these names.

    Raises:
        InvalidInputError: if there is none.
    """
    names = set(frame)
    homes = [h for h in representations.values() if names.issuperset(h.moving)]
    if not homes:
        raise InvalidInputError(
            f"A frame of {', '.join(sorted(map(str, names)))} is one of "
            f"none of {', '.join(representations)}; give the `--plugin` of its measure."
        )
    return max(homes, key=lambda home: len(home.moving))


def frame_of(mu: AbstractMeasure) -> Arrays:
    """What moves of a measure, by the names of a store."""
    return representation_of(mu).frames(mu, mu.coordinates)


def still(mu: AbstractMeasure, frames: int) -> Arrays:
    """The frames of a measure that has ended: where it was."""
    here = frame_of(mu).items()
    return {name: np.broadcast_to(a, (frames, *a.shape)) for name, a in here}


def dimension_in(frame: Frame) -> int:
    """The dimension of the space that a stored frame lives in."""
    return frame[representation_in(frame).place].shape[-1]


def moments_of(mu: AbstractMeasure) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.runs import moments_of
        >>> mean, covariance = moments_of(Points.uniform([[-1.0], [1.0]]))
        >>> print(mean, covariance)
        [0.] [[1.]]
    """
    return representation_of(mu).moments(mu)


def largest_eigenvalue(mu: AbstractMeasure) -> float:
    """The largest eigenvalue of the covariance; infinite if that overflows."""
    covariance = moments_of(mu)[1]
    if not np.all(np.isfinite(covariance)):
        return math.inf
    return float(np.linalg.eigvalsh(covariance)[-1])


class _Size(AbstractReader[Size]):
    """How many tokens, or nodes, sums go over, and how; a Gaussian has none."""

    @override
    def of_points(self, mu: Points) -> Size:
        return Size(mu.tokens.n, 0, mu.dimension, mu.reduction)

    @override
    def of_gaussian(self, mu: Gaussian) -> Size:
        return Size(0, 0, mu.dimension, None)


@eqx.filter_jit
def _moments(mu: Any) -> tuple[Array, Array]:
    return mu.mean, mu.covariance


def sums_of(mu: AbstractMeasure, moves: AbstractDynamics) -> str:
    """How sums over the tokens or cells of a measure are executed; `none` if not."""
    return describe_sums(representation_of(mu).size(mu).how, moves)


def misses_at_most(mu: AbstractMeasure, moves: AbstractDynamics) -> bool:
    """Whether what sums miss is known at most, and not only seen at some tokens."""
    how = representation_of(mu).size(mu).how
    return isinstance(how, Cells) and has_bound(moves, mu)
