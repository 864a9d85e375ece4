"""How the members of a run ended, added up over segments."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, SupportsFloat

import numpy as np

from meanfield._counting import counted
from meanfield.endings import Status, endings_in_words
from meanfield.flows import Doubt, Trajectory
from meanfield.storage import Ending

GROWS = "the size grows without bound in finite time"
PASSED = "the size passed its bound"
DOUBTED = 0.1  # of the mean or the covariance, beyond which no density is resolved


@dataclass(frozen=True)
class Outcome:
    """How far one flow has come, and how it ended if it did.

    Attributes:
        status: the ending, `None` while the flow goes on.
        time: up to when the flow is known.
        t_star: the time of a finite-time blow-up, NaN without one.
        t_star_error: how far off that may be.
        accepted: steps taken so far.
        rejected: steps tried and refused.
        residual: the worst error of an iteration behind the field; 0 without one.
        missed: the most that interpolated sums miss of velocities, over the largest of
            them; 0 where sums are exact.
        missed_at_most: whether no more is missed than that, rather than was seen where
            velocities were compared.
        lapse: what missed its tolerance at the end of a flow that is `unconverged`: its
            error, the tolerance, and how many iterations were made, 0 of sums.
        due: when the exact flow blows up, as fixed steps were told; NaN if it does
            not, and `None` until the run that predicts it has been made.
        doubt: how far off the last moments of a density on a grid may be, if it flowed
            to its end.

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
    accepted: int = 0
    rejected: int = 0
    residual: float = 0.0
    missed: float = 0.0
    missed_at_most: bool = True
    lapse: tuple[float, float, int] | None = None
    due: tuple[float, float] | None = None
    doubt: Doubt | None = None

    @classmethod
    def at_start(cls, t: float) -> "Outcome":
        """A flow before its first step."""
        return cls(None, t)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Outcome":
        """An outcome as it was stored."""
        status = values["status"]
        floats = {
            key: _or_nan(values[key])
            for key in ("time", "t_star", "t_star_error", "residual")
        }
        floats["missed"] = _or_nan(values.get("missed", 0.0))  # 0.2 has none
        due = values.get("due")
        doubt = values.get("doubt")
        record = None if doubt is None else Doubt(*map(_or_infinite, doubt))
        return cls(
            None if status is None else Status(status),
            due=None if due is None else (_or_nan(due[0]), _or_nan(due[1])),
            doubt=record,
            lapse=_lapse(*values["lapse"]) if values.get("lapse") else None,
            missed_at_most=values.get("missed_at_most", False),  # 0.2 has none
            accepted=values["accepted"],
            rejected=values["rejected"],
            **floats,
        )

    @property
    def going(self) -> bool:
        """Whether the flow has not ended."""
        return self.status is None

    @property
    def reason(self) -> str:
        """Why it ended, in a line."""
        if self.status is Status.BLOW_UP:
            return PASSED if math.isnan(self.t_star) else GROWS
        if self.status is Status.UNRESOLVED and self.doubt is not None:
            return f"{self.status.reason}: {_remedy(self.doubt)}"
        if self.status is Status.UNCONVERGED and self.lapse is not None:
            return _in_numbers(*self.lapse)
        return _status(self).reason

    @property
    def name(self) -> str:
        """The name of the ending; a flow that goes on counts as interrupted."""
        return _status(self).ending

    def after(self, trajectory: Trajectory, last: float, *, at_most: bool) -> "Outcome":
        """The outcome once a segment has run.

        Args:
            trajectory: the segment.
            last: the final time of the run.
            at_most: whether sums miss no more than the segment says, if anything.
        """
        stop = float(trajectory.stop_time)
        lapse = trajectory.status is Status.UNCONVERGED or None
        goes_on = trajectory.status is Status.FINISHED and stop < last
        return Outcome(
            None if goes_on else trajectory.status,
            stop,
            float(trajectory.t_star),
            float(trajectory.t_star_error),
            self.accepted + int(trajectory.n_accepted),
            self.rejected + int(trajectory.n_rejected),
            _worst([self.residual, float(trajectory.residual)]),
            _worst([self.missed, float(trajectory.missed)]),
            self.missed_at_most and (at_most or float(trajectory.missed) == 0),
            lapse and _lapse(*trajectory.lapse),
            (_one_nan(trajectory.due.t_star), _one_nan(trajectory.due.error)),
        )

    def with_doubt(self, doubt: Doubt) -> "Outcome":
        """The same with a doubt, which may leave nothing resolved."""
        is_resolved = doubt.worst <= DOUBTED
        status = self.status if is_resolved else Status.UNRESOLVED
        return replace(self, doubt=doubt, status=status)

    def as_json(self) -> dict[str, Any]:
        """The outcome as JSON values; NaN and infinite doubts become null."""
        values = asdict(self)
        values["status"] = None if self.status is None else int(self.status)
        if self.doubt is not None:
            values["doubt"] = [v if math.isfinite(v) else None for v in self.doubt]
        if self.due is not None:
            values["due"] = [None if math.isnan(v) else v for v in self.due]
        if self.lapse is not None:
            values["lapse"] = [v if math.isfinite(v) else None for v in self.lapse]
        nan = lambda v: isinstance(v, float) and math.isnan(v)
        return {key: None if nan(v) else v for key, v in values.items()}

    def ending(self) -> Ending:
        """The outcome as a store records it."""
        star = None if math.isnan(self.t_star) else self.t_star
        error = None if math.isnan(self.t_star_error) else self.t_star_error
        return Ending(self.name, self.reason, self.time, star, error)


def _lapse(
    residual: SupportsFloat | None, tolerance: SupportsFloat, iterations: SupportsFloat
) -> tuple[float, float, int] | None:
    """What missed a tolerance; `None` of a flow that was lost in another way."""
    numbers = _or_nan(residual), float(tolerance), int(float(iterations))
    return None if numbers[0] == 0 else numbers


def _in_numbers(residual: float, tolerance: float, iterations: int) -> str:
    """Which part of a field missed its tolerance, by how much, and what to change."""
    missed = f"{residual:.2g} where {tolerance:.2g} was asked"
    if iterations:
        return (
            "Sinkhorn's iteration missed its tolerance on the log-marginals: "
            f"{missed}, after {counted(iterations, 'iteration')}; raise "
            "`epsilon`, allow more with `--options max_iterations=10000`, or "
            "ask for a number of half-steps by `iterations`"
        )
    return (
        "interpolated sums or a quadrature behind the field missed their tolerance: "
        f"{missed}, relative to the velocity"
    )


def _or_nan(value: SupportsFloat | None) -> float:
    return math.nan if value is None else float(value)


def _one_nan(value: SupportsFloat) -> float:
    """A number, whose NaN equals that of a record that was read."""
    number = float(value)
    return math.nan if math.isnan(number) else number


def _worst(errors: Sequence[float]) -> float:
    """The largest; NaN if one is not known."""
    return float(np.max(errors))


def _or_infinite(value: SupportsFloat | None) -> float:
    return math.inf if value is None else float(value)


def _remedy(doubt: Doubt) -> str:
    """What would leave less in doubt."""
    if doubt.box > DOUBTED / 2 and doubt.box >= doubt.cells:
        return "widen the box by `half_width` or `domain`, or stop at an earlier `t`"
    return "use more `cells`, or stop at an earlier `t`"


def common(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of several flows as one: the most severe ending among them.

    The latest time, the steps of all, the doubt of the one most in doubt, and the
    earliest blow-up.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    statuses = [_status(o) for o in outcomes]
    worst = outcomes[statuses.index(Status.most_severe(statuses))]
    doubts = [o.doubt for o in outcomes if o.doubt is not None]
    blow_ups = [o for o in outcomes if math.isfinite(o.t_star)]
    first = min(blow_ups, key=lambda o: o.t_star, default=outcomes[0])
    return Outcome(
        worst.status,
        max(o.time for o in outcomes),
        first.t_star,
        first.t_star_error,
        accepted=sum(o.accepted for o in outcomes),
        rejected=sum(o.rejected for o in outcomes),
        residual=_worst([o.residual for o in outcomes]),
        missed=_worst([o.missed for o in outcomes]),
        missed_at_most=all(o.missed_at_most for o in outcomes),
        lapse=worst.lapse,
        doubt=max(doubts, key=lambda doubt: doubt.worst, default=None),
    )


def ending_of(outcomes: Sequence[Outcome]) -> Ending:
    """The ending of a run of several flows, as a store records it."""
    ending = common(outcomes).ending()
    return replace(ending, reason=f"{mixed_endings(outcomes)}{ending.reason}")


def mixed_endings(outcomes: Sequence[Outcome]) -> str:
    """How many flows ended in each way, before a reason; empty if all ended alike."""
    statuses = [_status(outcome) for outcome in outcomes]
    return f"{endings_in_words(statuses)}: " if len(set(statuses)) > 1 else ""


def _status(outcome: Outcome) -> Status:
    """The ending; a flow that goes on counts as interrupted."""
    return Status.INTERRUPTED if outcome.status is None else outcome.status
