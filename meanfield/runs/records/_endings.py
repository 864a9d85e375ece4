"""The outcome of each member of a run, accumulated over its segments."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, SupportsFloat

import numpy as np

from meanfield._counting import count_phrase
from meanfield.endings import Status, summarise_endings
from meanfield.flows import ErrorEstimate, Trajectory
from meanfield.storage import Ending

BLOW_UP_REASON = "the size grows without bound in finite time"
BOUND_REASON = "the size passed its bound"
RESOLUTION_LIMIT = 0.1  # largest error of a resolved density, relative to its spread


@dataclass(frozen=True)
class Outcome:
    """How far one flow has come, and, if it has ended, how it ended.

    Attributes:
        status: the ending; `None` while the flow is unfinished.
        time: the time that the flow has reached.
        t_star: the time of a finite-time blow-up; NaN if there is none.
        t_star_error: the half-width of its error bar.
        n_accepted: the number of accepted steps.
        n_rejected: the number of rejected steps.
        residual: the largest residual of an iteration in the field; 0 if the field does
            not iterate.
        sum_error: the largest error of velocities from interpolated sums, relative to
            the largest velocity; 0 if sums are exact.
        is_sum_error_bound: whether `sum_error` is a bound, rather than the largest
            error observed where velocities were compared.
        convergence_failure: for the ending `unconverged`, the error that missed its
            tolerance, that tolerance, and the number of iterations (0 for sums).
        predicted_blow_up: the predicted blow-up time and its error, from the pilot
            integration before fixed steps; NaN if no blow-up is predicted, `None`
            before there is a prediction.
        error_estimate: the error estimate of the final moments of a density on a grid,
            if the flow reached its end.
        merges: for steps in arclength, the time of each merge of tokens, the first
            token of either cluster, and their weight together.

    Examples:
        >>> from meanfield import runs, spec
        >>> result = runs.execute(
        ...     spec.parse({"measure": "gaussian", "A": 1.0, "cov": 2.0})
        ... )
        >>> outcome = result.outcome
        >>> (
        ...     outcome.name,
        ...     round(outcome.t_star, 6),
        ...     abs(outcome.t_star - 1 / 4) < outcome.t_star_error,
        ... )
        ('blow-up', 0.25, True)
    """

    status: Status | None
    time: float
    t_star: float = math.nan
    t_star_error: float = math.nan
    n_accepted: int = 0
    n_rejected: int = 0
    residual: float = 0.0
    sum_error: float = 0.0
    is_sum_error_bound: bool = True
    convergence_failure: tuple[float, float, int] | None = None
    predicted_blow_up: tuple[float, float] | None = None
    error_estimate: ErrorEstimate | None = None
    merges: tuple[tuple[float, int, int, float], ...] = ()

    @classmethod
    def start_at(cls, t: float) -> "Outcome":
        """The outcome of a flow before its first step."""
        return cls(None, t)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Outcome":
        """The outcome with these stored values."""
        status, failure = values["status"], values.get("convergence_failure")
        prediction = values.get("predicted_blow_up")
        estimate = values.get("error_estimate")
        names = ("time", "t_star", "t_star_error", "residual")
        floats = {name: _or_nan(values[name]) for name in names}
        return cls(
            None if status is None else Status(status),
            predicted_blow_up=prediction
            and (_or_nan(prediction[0]), _or_nan(prediction[1])),
            error_estimate=estimate and ErrorEstimate(*map(_or_infinite, estimate)),
            convergence_failure=failure and _convergence(*failure),
            sum_error=_or_nan(values.get("sum_error", 0.0)),  # absent from old stores
            is_sum_error_bound=values.get("is_sum_error_bound", False),
            merges=tuple(map(tuple, values.get("merges", ()))),
            n_accepted=values["n_accepted"],
            n_rejected=values["n_rejected"],
            **floats,
        )

    @property
    def is_running(self) -> bool:
        """Whether the flow has not ended."""
        return self.status is None

    @property
    def reason(self) -> str:
        """One line on why the flow ended."""
        if self.status is Status.BLOW_UP:
            return BOUND_REASON if math.isnan(self.t_star) else BLOW_UP_REASON
        if self.status is Status.UNRESOLVED and self.error_estimate is not None:
            return f"{self.status.reason}: {_remedy(self.error_estimate)}"
        if self.status is Status.UNCONVERGED and self.convergence_failure is not None:
            return _convergence_reason(*self.convergence_failure)
        return _status(self).reason

    @property
    def name(self) -> str:
        """The name of the ending; an unfinished flow counts as interrupted."""
        return _status(self).ending

    def add_segment(
        self, trajectory: Trajectory, last: float, *, is_bound: bool
    ) -> "Outcome":
        """The outcome after one more segment.

        Args:
            trajectory: the segment.
            last: the final time of the run.
            is_bound: whether the segment's `sum_error` is an upper bound.
        """
        stop, merges = float(trajectory.stop_time), trajectory.merges
        rows = np.reshape([] if merges is None else merges, (-1, 4))
        rows = rows[np.isfinite(rows[:, 0])].tolist()  # members fill up with NaN
        prediction = trajectory.predicted_blow_up
        goes_on = trajectory.status is Status.FINISHED and stop < last
        return Outcome(
            None if goes_on else trajectory.status,
            stop,
            float(trajectory.t_star),
            float(trajectory.t_star_error),
            self.n_accepted + int(trajectory.n_accepted),
            self.n_rejected + int(trajectory.n_rejected),
            _worst([self.residual, float(trajectory.residual)]),
            _worst([self.sum_error, float(trajectory.sum_error)]),
            self.is_sum_error_bound and (is_bound or float(trajectory.sum_error) == 0),
            _convergence(*trajectory.convergence_failure)
            if trajectory.status is Status.UNCONVERGED
            else None,
            (_one_nan(prediction.t_star), _one_nan(prediction.error)),
            merges=(*self.merges, *((t, int(a), int(b), w) for t, a, b, w in rows)),
        )

    def add_error_estimate(self, estimate: ErrorEstimate) -> "Outcome":
        """The outcome with an error estimate; unresolved if the estimate is large."""
        is_resolved = estimate.worst <= RESOLUTION_LIMIT
        status = self.status if is_resolved else Status.UNRESOLVED
        return replace(self, error_estimate=estimate, status=status)

    def as_json(self) -> dict[str, Any]:
        """The outcome as JSON values; NaN and infinite error estimates become null."""
        values = asdict(self)
        values["status"] = None if self.status is None else int(self.status)
        for key in ("error_estimate", "convergence_failure"):
            values[key] = values[key] and _finite_or_none(values[key])
        times = self.predicted_blow_up
        values["predicted_blow_up"] = times and list(map(_nan_to_none, times))
        return {key: _nan_to_none(value) for key, value in values.items()}

    def ending(self) -> Ending:
        """The outcome as a store records it."""
        star, error = map(_nan_to_none, (self.t_star, self.t_star_error))
        return Ending(self.name, self.reason, self.time, star, error)


def _convergence(
    residual: SupportsFloat | None, tolerance: SupportsFloat, iterations: SupportsFloat
) -> tuple[float, float, int] | None:
    """The error, its tolerance and the iterations; `None` if the error is zero."""
    numbers = _or_nan(residual), float(tolerance), int(float(iterations))
    return None if numbers[0] == 0 else numbers


def _convergence_reason(residual: float, tolerance: float, iterations: int) -> str:
    """Why a flow is `unconverged`: what missed its tolerance, and by how much."""
    detail = f"{residual:.2g} where {tolerance:.2g} was asked"
    if iterations:
        return (
            "Sinkhorn's iteration missed its tolerance on the log-marginals: "
            f"{detail}, after {count_phrase(iterations, 'iteration')}; raise "
            "`epsilon`, allow more with `--options max_iterations=10000`, or "
            "set a fixed number of half-steps with `iterations`"
        )
    return (
        "interpolated sums or a quadrature behind the field missed their tolerance: "
        f"{detail}, relative to the velocity"
    )


def _finite_or_none(values: Iterable[int | float]) -> list[int | float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _or_nan(value: SupportsFloat | None) -> float:
    return math.nan if value is None else float(value)


def _nan_to_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _one_nan(value: SupportsFloat) -> float:
    """Replaces any NaN by `math.nan` itself, so that stored outcomes compare equal."""
    number = float(value)
    return math.nan if math.isnan(number) else number


def _worst(errors: Sequence[float]) -> float:
    """The largest of several errors; NaN if one of them is NaN."""
    return float(np.max(errors))


def _or_infinite(value: SupportsFloat | None) -> float:
    return math.inf if value is None else float(value)


def _remedy(estimate: ErrorEstimate) -> str:
    """Advice on how to lower an error estimate."""
    if estimate.box > RESOLUTION_LIMIT / 2 and estimate.box >= estimate.cells:
        return "widen the box with `half_width` or `domain`, or stop at an earlier `t`"
    return "use more `cells`, or stop at an earlier `t`"


def combine_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of several flows as one, with the most severe ending among them.

    The result has the latest time, the total number of steps, the worst errors and
    error estimate, and the earliest blow-up.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    statuses = [_status(o) for o in outcomes]
    worst = outcomes[statuses.index(Status.most_severe(statuses))]
    estimates = [o.error_estimate for o in outcomes if o.error_estimate is not None]
    blow_ups = [o for o in outcomes if math.isfinite(o.t_star)]
    first = min(blow_ups, key=lambda o: o.t_star, default=outcomes[0])
    return Outcome(
        worst.status,
        max(o.time for o in outcomes),
        first.t_star,
        first.t_star_error,
        n_accepted=sum(o.n_accepted for o in outcomes),
        n_rejected=sum(o.n_rejected for o in outcomes),
        residual=_worst([o.residual for o in outcomes]),
        sum_error=_worst([o.sum_error for o in outcomes]),
        is_sum_error_bound=all(o.is_sum_error_bound for o in outcomes),
        convergence_failure=worst.convergence_failure,
        error_estimate=max(estimates, key=lambda part: part.worst, default=None),
    )


def ending_of(outcomes: Sequence[Outcome]) -> Ending:
    """The ending of a run of several flows, as a store records it."""
    ending = combine_outcomes(outcomes).ending()
    return replace(ending, reason=f"{ending_counts(outcomes)}{ending.reason}")


def ending_counts(outcomes: Sequence[Outcome]) -> str:
    """How many flows ended in each way, as text; empty if all ended in the same way."""
    statuses = [_status(outcome) for outcome in outcomes]
    return f"{summarise_endings(statuses)}: " if len(set(statuses)) > 1 else ""


def _status(outcome: Outcome) -> Status:
    """The ending; an unfinished flow counts as interrupted."""
    return Status.INTERRUPTED if outcome.status is None else outcome.status
