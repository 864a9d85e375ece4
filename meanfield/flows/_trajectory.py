"""The result of a flow: its frames, and how and when it ended."""

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

from meanfield._array import is_concrete, member_of
from meanfield._display import AbstractDisplayable
from meanfield._views import view
from meanfield.endings import Status
from meanfield.errors import FrameIndexError, SimulationError, WrongKindError
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from .watch import BlowUpTime

if TYPE_CHECKING:
    import xarray

M = TypeVar("M", bound=AbstractMeasure)


class Trajectory(AbstractDisplayable, eqx.Module, Generic[M]):
    """A measure at increasing times.

    It is a sequence of frames: `run[3]` and `run[-1]` are measures, `run[2:5]` is a
    trajectory, and iterating gives the measures. Frames after an early end repeat the
    last good state; `n_saved` counts the frames that were reached. Under `vmap` every
    array has leading axes of members: `run.member(0)` is the first flow.

    >>> import meanfield
    >>> one = [[1.0]]
    >>> start = meanfield.Gaussian.from_moments([0.0], [[2.0]])
    >>> attention = meanfield.attentions["softmax"]([[-1.0]], one, one)
    >>> run = meanfield.flow(attention, start, [0.0, 0.5, 1.0])
    >>> len(run), [round(float(mu.covariance[0, 0]), 4) for mu in run]
    (3, [2.0, 0.6667, 0.4])

    Attributes:
        ts: times of the frames.
        coordinates: the coordinates of the measure, with a leading axis of times; for
            tokens the states, of shape (times, n, d).
        start: the initial measure, with everything that does not move.
        last: the coordinates at `stop_time`.
        code: the `Status`, as an integer.
        stop_time: the time at which the flow ended.
        n_saved: number of frames that were reached.
        convergence_failure: residual, tolerance and number of iterations (0 for
            inaccurate sums) of a flow that ended as `unconverged`; zeros otherwise.
        blow_up: `t_star` and its error as used inside `jit`: infinite if there is none.
        n_accepted: number of accepted steps.
        n_rejected: number of rejected steps.
        residual: largest residual of the field's iteration; 0 if there is none.
        sum_error: largest error of inexact sums, relative to the largest velocity.
        prediction: `predicted_blow_up` in the form used inside `jit`: infinite if the
            exact flow does not blow up, or if steps are not fixed.
        merges: in arclength, rows of time, first token of either cluster, joint weight.

    Examples:
        >>> from meanfield import Gaussian, attentions, flow
        >>> one = jnp.eye(1)
        >>> softmax = attentions["softmax"](-one, one, one)
        >>> run = flow(softmax, Gaussian(jnp.zeros(1), one), [0.0, 0.5, 1.0])
        >>> print(run.ts, run.map(lambda mu: mu.covariance[0, 0]))  # 1/(1 + 2t)
        [0.  0.5 1. ] [1.     0.5    0.3333]
        >>> print(run.frame(-1).covariance, run.status)
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
    sum_error: Float[Array, ""]
    convergence_failure: Convergence
    prediction: BlowUpTime
    merges: Float[Array, "merges 4"] | None = None

    @property
    def t_star(self) -> Float[Array, "..."]:
        """Time of the finite-time blow-up; NaN if none was found."""
        return self.blow_up.nan_form.t_star

    @property
    def t_star_error(self) -> Float[Array, "..."]:
        """Error estimate of `t_star`; NaN if no blow-up was found.

        It includes errors of the steps, but not their amplification by an unstable
        blow-up: if two eigenvalues blow up together while `V` rotates one into the
        other, check the time with half the tolerance.
        """
        return self.blow_up.nan_form.error

    @property
    def predicted_blow_up(self) -> BlowUpTime:
        """Blow-up time of the exact flow, predicted before a flow with fixed steps.

        It is NaN without a blow-up or fixed steps. Pass it to the next flow.
        """
        return self.prediction.nan_form

    @property
    def status(self) -> Status:
        """The ending of the flow, known only outside `jit` and `vmap`.

        Raises:
            WrongKindError: if this is an ensemble: use `status_counts(run.code)`.
        """
        self._check_one_flow("Use `status_counts(run.code)` for the endings")
        return Status(int(self.code))

    @property
    def final(self) -> M:
        """The measure when the flow ended; for an ensemble, a stack of measures."""
        return cast(M, self.start.replace_coordinates(self.last))

    def frame(self, index: SupportsIndex | Int[Array, ""]) -> M:
        """The measure of frame `index`; negative indices count from the last frame.

        The index is a number, not a time; the times are in `ts`. An index traced by
        `jit` is not checked: if out of range, it is clipped to the first or last frame.

        Raises:
            FrameIndexError: if there is no such frame.
            WrongKindError: if `index` is not a whole number, or this is an ensemble.
        """
        self._check_one_flow()
        if is_concrete(index):
            index = self._frame_number(index)
        frame = jax.tree.map(lambda leaf: leaf[index], self.coordinates)
        return cast(M, self.start.replace_coordinates(frame))

    def __len__(self) -> int:
        """Number of frames, including those after an early end.

        Raises:
            WrongKindError: if this is an ensemble.
        """
        self._check_one_flow()
        return self.ts.shape[0]

    def _check_one_flow(self, remedy: str = "Select one: `run.member(0)`") -> None:
        if np.ndim(self.ts) != 1:
            raise WrongKindError(
                f"This is an ensemble of {self.ts.shape[0]} flows, not one sequence of "
                f"frames. {remedy}."
            )

    @overload
    def __getitem__(self, index: slice) -> "Trajectory[M]": ...

    @overload
    def __getitem__(self, index: SupportsIndex | Int[Array, ""]) -> M: ...

    def __getitem__(
        self, index: slice | SupportsIndex | Int[Array, ""]
    ) -> "Trajectory[M] | M":
        """The frame with an integer index, as from `frame`, or a slice of frames.

        A slice keeps the `final` state and the `status` of the whole flow.

        Raises:
            FrameIndexError: if there is no such frame.
            WrongKindError: if this is an ensemble, or if `index` is neither an integer
                nor a slice of integers that runs forward.
        """
        count = len(self)
        return (
            self._slice_frames(index, count)
            if isinstance(index, slice)
            else self.frame(index)
        )

    def __iter__(self) -> Iterator[M]:
        """The measures of all frames."""
        return (self.frame(index) for index in range(len(self)))

    def _slice_frames(self, frames: slice, count: int) -> "Trajectory[M]":
        try:
            forward = frames.indices(count)[2] > 0
        except TypeError:
            forward = False
        if not forward:
            raise WrongKindError(
                "A slice of frames must consist of whole numbers, with a positive step,"
                f" as in `run[2:5]` or `run[::10]`; got {frames}."
            )
        return replace(
            self,
            ts=self.ts[frames],
            coordinates=jax.tree.map(lambda leaf: leaf[frames], self.coordinates),
            n_saved=jnp.sum(jnp.arange(count)[frames] < self.n_saved),
        )

    def member(self, index: SupportsIndex) -> "Trajectory[M]":
        """One flow of an ensemble, by its index along the first axis of all arrays.

        Raises:
            FrameIndexError: if there is no such flow.
            WrongKindError: if this is one flow, or the index is not a whole number.
        """
        if self.ts.ndim == 1:
            raise WrongKindError(
                "This is one flow, not an ensemble. Use `run[0]` for its first frame."
            )
        number, count = _integer_index(index, "flow"), self.ts.shape[0]
        if not -count <= number < count:
            raise FrameIndexError(
                f"There is no flow {number}: this ensemble has {count} flows, counted "
                "from 0."
            )
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
        """The frames that were reached, as a dataset like that of `meanfield.open`.

        If the flow ended early, the last frame is the state at which it ended. The
        first dimension of an ensemble is `run`.

        Raises:
            InvalidInputError: inside `jit`, where values are not known.
        """
        return view("dataset", self)

    @property
    def plot(self) -> Any:
        """The panels, as methods that return figures: `run.plot.tokens()`.

        `meanfield list panels` shows their names.
        """
        return view("plots", self.to_xarray())

    def _frame_number(self, index: object) -> int:
        count = jax.tree.leaves(self.coordinates)[0].shape[0]
        number = _integer_index(index, "frame, whose time is in `.ts`,")
        if not -count <= number < count:
            raise FrameIndexError(
                f"There is no frame {number}: this trajectory has {count} frames. Use "
                f"0 to {count - 1}, or {-count} to -1 to count from the end."
            )
        return number

    def map(self, fn: Callable[[M], PyTree[Array]]) -> PyTree[Array]:
        """Applies `fn` to every frame of one flow; stacks results along axis 0."""
        self._check_one_flow()
        return jax.vmap(lambda c: fn(cast(M, self.start.replace_coordinates(c))))(
            self.coordinates
        )

    @override
    def plain_repr(self) -> str:
        return eqx.tree_pformat(self)

    def raise_for_status(self) -> "Trajectory[M]":
        """Returns this trajectory unless the flow failed.

        Raises:
            SimulationError: if it ended as `max-steps`, `not-finite` or `unconverged`.
        """
        status = self.status
        if status.is_failure:
            raise SimulationError(
                f"The flow ended with status `{status.ending}` at t = "
                f"{float(self.stop_time):g}: {status.reason}"
                f"{self.convergence_failure.text}. The last good state is in `.final`."
            )
        return self


def _integer_index(index: object, subject: str) -> int:
    try:
        return operator.index(index)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise WrongKindError(
            f"The index of a {subject} must be a whole number; got {index!r}."
        ) from None
