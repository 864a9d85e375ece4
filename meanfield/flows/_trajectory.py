"""What a flow returns: frames, and how and when it ended."""

import operator
from collections.abc import Callable
from typing import Generic, SupportsIndex, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from meanfield._array import is_concrete
from meanfield.endings import Status
from meanfield.errors import FrameIndexError, SimulationFailed, WrongKindError
from meanfield.measures import AbstractMeasure

from .watch import BlowUpTime

M = TypeVar("M", bound=AbstractMeasure)


class Trajectory(eqx.Module, Generic[M]):
    """A measure at increasing times.

    Frames after an early end repeat the last good state, and `n_saved` says how many
    are real. Under `vmap` every array leads with the axes of the ensemble.

    Attributes:
        ts: the times of the frames.
        coordinates: the coordinates of the measure, led by an axis of times.
        start: the initial measure, which holds all that does not move.
        last: the coordinates at `stop_time`.
        code: a `Status`.
        stop_time: when the flow ended.
        n_saved: how many frames are real.
        t_star: the time of a finite-time blow-up, NaN if none was found.
        t_star_error: how far off it may be. Errors of the steps count by the time they
            shift, not by what an unstable blow-up makes of them: where two eigenvalues
            escape together while `V` turns one into the other, halve the tolerance.
        n_accepted: steps taken.
        n_rejected: steps tried and refused.
        residual: the worst error of an iteration behind the field, seen after any step;
            0 where there was no iteration.
        due: when the exact flow blows up, as fixed steps were told beforehand; NaN if
            it does not, and for other steps. A flow that goes on is told of it.

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
    t_star: Float[Array, ""]
    t_star_error: Float[Array, ""]
    n_accepted: Int[Array, ""]
    n_rejected: Int[Array, ""]
    residual: Float[Array, ""]
    due: BlowUpTime

    @property
    def status(self) -> Status:
        """How the flow ended; outside `jit` and `vmap`."""
        return Status(int(self.code))

    @property
    def final(self) -> M:
        """The measure when the flow ended."""
        return cast(M, self.start.at(self.last))

    def at(self, index: SupportsIndex | Int[Array, ""]) -> M:
        """The measure of frame `index`; negative ones count from the last: `at(-1)`.

        A frame is asked for by its number, not by its time; see `ts`. An index traced
        by `jit` cannot be checked, and stops at the first or the last frame.

        Raises:
            FrameIndexError: if there is no such frame.
            WrongKindError: if `index` is not a whole number.
        """
        if is_concrete(index):
            index = self._checked(index)
        frame = jax.tree.map(lambda leaf: leaf[index], self.coordinates)
        return cast(M, self.start.at(frame))

    def _checked(self, index: object) -> int:
        count = jax.tree.leaves(self.coordinates)[0].shape[0]
        try:
            number = operator.index(index)  # pyright: ignore[reportArgumentType]
        except TypeError:
            raise WrongKindError(
                f"Frames are asked for by a whole number; got {index!r}. The times of "
                "the frames are in `.ts`."
            ) from None
        if not -count <= number < count:
            raise FrameIndexError(
                f"There is no frame {number}: this trajectory has {count}, from 0 to "
                f"{count - 1}, or from {-count} to -1 counted from the last."
            )
        return number

    def map(self, fn: Callable[[M], PyTree[Array]]) -> PyTree[Array]:
        """`fn` of every frame, stacked along the first axis."""
        return jax.vmap(lambda c: fn(cast(M, self.start.at(c))))(self.coordinates)

    def raise_for_status(self) -> "Trajectory[M]":
        """This trajectory, if it did not fail.

        Raises:
            SimulationFailed: if it ended as `max-steps`, `not-finite` or `unconverged`.
        """
        status = self.status
        if status.failed:
            raise SimulationFailed(
                f"The flow ended as `{status.ending}` at t = "
                f"{float(self.stop_time):g}: {status.reason}. "
                "The last good state is in `.final`."
            )
        return self


def status_counts(codes: Int[Array, " runs"]) -> dict[str, int]:
    """How many members of an ensemble ended in each way.

    Examples:
        >>> from meanfield.flows import status_counts
        >>> status_counts(jnp.array([0, 2, 2]))
        {'finished': 1, 'blow-up': 2}
    """
    found, counts = np.unique(np.asarray(codes), return_counts=True)
    return {Status(int(c)).ending: int(k) for c, k in zip(found, counts, strict=True)}


def repeat_last(
    frames: PyTree[Array], last: PyTree[Array], n_saved: Int[Array, ""]
) -> PyTree[Array]:
    """Frames, with those from `n_saved` on replaced by `last`."""

    def fill(leaf: Array, end: Array) -> Array:
        real = jnp.arange(leaf.shape[0]) < n_saved
        return jnp.where(real.reshape(-1, *[1] * end.ndim), leaf, end[None])

    return jax.tree.map(fill, frames, last)
