"""What a flow returns: frames, and how and when it ended."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, cast, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield._above import view
from meanfield._array import is_concrete, member_of
from meanfield._display import Shown
from meanfield.endings import Status
from meanfield.errors import FrameIndexError, SimulationFailed, WrongKindError
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from .watch import BlowUpTime

if TYPE_CHECKING:
    import xarray

M = TypeVar("M", bound=AbstractMeasure)


class Trajectory(Shown, eqx.Module, Generic[M]):
    """A measure at increasing times.

    A sequence of its frames: `run[3]` and `run[-1]` are measures, `run[2:5]` is a
    trajectory, and a loop goes over the measures. Frames after an early end repeat the
    last good state, and `n_saved` says how many are real. Under `vmap` every array
    leads with the axes of the ensemble: `run.member(0)` is the first of its flows.

    >>> import meanfield
    >>> one = [[1.0]]
    >>> start = meanfield.Gaussian.from_moments([0.0], [[2.0]])
    >>> attention = meanfield.attentions["softmax"]([[-1.0]], one, one)
    >>> run = meanfield.flow(attention, start, [0.0, 0.5, 1.0])
    >>> len(run), [round(float(mu.covariance[0, 0]), 4) for mu in run]
    (3, [2.0, 0.6667, 0.4])

    Attributes:
        ts: the times of the frames.
        coordinates: the coordinates of the measure, led by an axis of times: of tokens
            all positions, (times, n, d).
        start: the initial measure, which holds all that does not move.
        last: the coordinates at `stop_time`.
        code: a `Status`.
        stop_time: when the flow ended.
        n_saved: how many frames are real.
        lapse: what missed its tolerance at the end of a flow that is `unconverged`: an
            iteration, or sums, which count no iterations; else zeros.
        blow_up: `t_star` and its error as programs hold them: infinite if none was
            found.
        n_accepted: steps taken.
        n_rejected: steps tried and refused.
        residual: the worst error of an iteration behind the field; 0 without one.
        missed: the most that sums miss of velocities, over the largest; 0 if exact.
        predicted: `due` as programs hold it: infinite if the exact flow does not blow
            up, and for other steps.

    Examples:
        >>> from meanfield import Gaussian, attentions, flow
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](-one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> run = flow(softmax, start, [0.0, 0.5, 1.0])
        >>> print(run.ts, run.map(lambda mu: mu.covariance[0, 0]))  # 1/(1 + 2t)
        [0.  0.5 1. ] [1.     0.5    0.3333]
        >>> print(run.at(-1).covariance, run.status)
        [[0.3333]] finished
    """

    ts: Float[Array, " times"]
    coordinates: PyTree[Array]
    start: M
    last: PyTree[Array]
    code: Int[Array, ""]
    stop_time: Float[Array, ""]
    n_saved: Int[Array, ""]
    blow_up: BlowUpTime
    n_accepted: Int[Array, ""]
    n_rejected: Int[Array, ""]
    residual: Float[Array, ""]
    missed: Float[Array, ""]
    lapse: Convergence
    predicted: BlowUpTime

    @property
    def t_star(self) -> Float[Array, "..."]:
        """The time of a finite-time blow-up, NaN if none was found."""
        return self.blow_up.or_missing.t_star

    @property
    def t_star_error(self) -> Float[Array, "..."]:
        """How far off `t_star` may be, NaN if none was found.

        Errors of the steps count by the time they shift, not by what an unstable
        blow-up makes of them: where two eigenvalues escape together while `V` turns one
        into the other, halve the tolerance.
        """
        return self.blow_up.or_missing.error

    @property
    def due(self) -> BlowUpTime:
        """When the exact flow blows up, as fixed steps were told beforehand.

        NaN if it does not, and for other steps. A flow that goes on is told of it.
        """
        return self.predicted.or_missing

    @property
    def status(self) -> Status:
        """How the flow ended; outside `jit` and `vmap`.

        Raises:
            WrongKindError: if this is an ensemble; `status_counts(run.code)` counts.
        """
        self._check_one_flow("`status_counts(run.code)` counts how its flows ended")
        return Status(int(self.code))

    @property
    def final(self) -> M:
        """The measure when the flow ended; of an ensemble a stack of measures."""
        return cast(M, self.start.at(self.last))

    def at(self, index: SupportsIndex | Int[Array, ""]) -> M:
        """The measure of frame `index`; negative ones count from the last: `at(-1)`.

        A frame is asked for by its number, not by its time; see `ts`. An index traced
        by `jit` cannot be checked, and stops at the first or the last frame.

        Raises:
            FrameIndexError: if there is no such frame.
            WrongKindError: if `index` is not a whole number, or this is an ensemble.
        """
        self._check_one_flow()
        if is_concrete(index):
            index = self._checked(index)
        frame = jax.tree.map(lambda leaf: leaf[index], self.coordinates)
        return cast(M, self.start.at(frame))

    def __len__(self) -> int:
        """How many frames there are, those after an early end included.

        Raises:
            WrongKindError: if this is an ensemble.
        """
        self._check_one_flow()
        return self.ts.shape[0]

    def _check_one_flow(self, remedy: str = "ask one of them, `run.member(0)`") -> None:
        if np.ndim(self.ts) != 1:
            raise WrongKindError(
                f"This is an ensemble of {self.ts.shape[0]} flows, and no sequence of "
                f"frames: {remedy}."
            )

    @overload
    def __getitem__(self, index: slice) -> "Trajectory[M]": ...

    @overload
    def __getitem__(self, index: SupportsIndex | Int[Array, ""]) -> M: ...

    def __getitem__(
        self, index: slice | SupportsIndex | Int[Array, ""]
    ) -> "Trajectory[M] | M":
        """The measure of a frame, as `at`; or the trajectory of some frames.

        The end of a flow, `final` and its status, is the same for all its parts.

        Raises:
            FrameIndexError: if there is no such frame.
            WrongKindError: if `index` is neither a whole number nor a slice of whole
                numbers that runs forward, or if this is an ensemble.
        """
        count = len(self)
        return self._part(index, count) if isinstance(index, slice) else self.at(index)

    def __iter__(self) -> Iterator[M]:
        """The measures of all frames."""
        return (self.at(index) for index in range(len(self)))

    def _part(self, frames: slice, count: int) -> "Trajectory[M]":
        try:
            forward = frames.indices(count)[2] > 0
        except TypeError:
            forward = False
        if not forward:
            raise WrongKindError(
                "Frames are cut out by whole numbers that run forward, as `run[2:5]` "
                f"or `run[::10]`; got {frames}."
            )
        return replace(
            self,
            ts=self.ts[frames],
            coordinates=jax.tree.map(lambda leaf: leaf[frames], self.coordinates),
            n_saved=jnp.sum(jnp.arange(count)[frames] < self.n_saved),
        )

    def member(self, index: SupportsIndex) -> "Trajectory[M]":
        """One flow of an ensemble, by its number along the first axis of all arrays.

        Raises:
            FrameIndexError: if there is none of this number.
            WrongKindError: if this is one flow, or the index is no whole number.
        """
        if self.ts.ndim == 1:
            raise WrongKindError(
                "This is one flow: `run[0]` is the measure of its first frame."
            )
        number, count = _whole(index, "Flows"), self.ts.shape[0]
        if not -count <= number < count:
            raise FrameIndexError(f"There is no flow {number} among {count}.")
        return member_of(self, number)

    @property
    def mean(self) -> Float[Array, "times d"]:
        """The mean of the measure at every frame.

        Raises:
            WrongKindError: if this is an ensemble.
        """
        return self.map(lambda mu: cast(Any, mu).mean)

    @property
    def covariance(self) -> Float[Array, "times d d"]:
        """The covariance of the measure at every frame.

        Raises:
            WrongKindError: if this is an ensemble.
        """
        return self.map(lambda mu: cast(Any, mu).covariance)

    def to_xarray(self) -> "xarray.Dataset":
        """The frames that were reached, named as `meanfield.open` names stored ones.

        A flow that ended early has the state where it ended as its last frame. An
        ensemble leads with the dim `run`.

        Raises:
            InvalidInputError: inside `jit`, where there are no numbers yet.
        """
        return view("dataset", self)

    @property
    def plot(self) -> Any:
        """The panels, each a method that gives a figure: `run.plot.tokens()`.

        Their names are those of `meanfield list panels`.
        """
        return view("plots", self.to_xarray())

    def _checked(self, index: object) -> int:
        count = jax.tree.leaves(self.coordinates)[0].shape[0]
        number = _whole(index, "Frames, whose times are in `.ts`,")
        if not -count <= number < count:
            raise FrameIndexError(
                f"There is no frame {number}: this trajectory has {count}, from 0 to "
                f"{count - 1}, or from {-count} to -1 counted from the last."
            )
        return number

    def map(self, fn: Callable[[M], PyTree[Array]]) -> PyTree[Array]:
        """`fn` of every frame, stacked along the first axis; not of an ensemble."""
        self._check_one_flow()
        return jax.vmap(lambda c: fn(cast(M, self.start.at(c))))(self.coordinates)

    @override
    def bare(self) -> str:
        return eqx.tree_pformat(self)

    def raise_for_status(self) -> "Trajectory[M]":
        """This trajectory, if it did not fail.

        Raises:
            SimulationFailed: if it ended as `max-steps`, `not-finite` or `unconverged`.
        """
        status = self.status
        if status.failed:
            raise SimulationFailed(
                f"The flow ended as `{status.ending}` at t = "
                f"{float(self.stop_time):g}: {status.reason}{self.lapse.text}. "
                "The last good state is in `.final`."
            )
        return self


def _whole(index: object, asked_for: str) -> int:
    try:
        return operator.index(index)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise WrongKindError(
            f"{asked_for} are asked for by a whole number; got {index!r}."
        ) from None
