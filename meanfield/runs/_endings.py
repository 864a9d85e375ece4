"""How the members of a run ended, added up over segments."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from meanfield.flows import REASONS, Status, Trajectory
from meanfield.storage import Ending

GROWS = "the size grows without bound in finite time"
PASSED = "the size passed its bound"


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
        lag: how far fixed steps have fallen behind the exact flow.
    """

    status: Status | None
    time: float
    t_star: float = math.nan
    t_star_error: float = math.nan
    accepted: int = 0
    rejected: int = 0
    residual: float = 0.0
    lag: float = 0.0

    @classmethod
    def at_start(cls, t: float) -> "Outcome":
        """A flow before its first step."""
        return cls(None, t)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Outcome":
        """An outcome as it was stored."""
        status = values["status"]
        floats = {
            key: math.nan if values[key] is None else values[key]
            for key in ("time", "t_star", "t_star_error", "residual")
        }
        return cls(
            None if status is None else Status(status),
            accepted=values["accepted"],
            rejected=values["rejected"],
            lag=values.get("lag", 0.0),  # records of 0.1 have none
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
        return REASONS[Status.INTERRUPTED if self.status is None else self.status]

    @property
    def name(self) -> str:
        """The name of the ending; a flow that goes on counts as interrupted."""
        return (Status.INTERRUPTED if self.status is None else self.status).ending

    def after(self, trajectory: Trajectory, last: float) -> "Outcome":
        """The outcome once a segment has run; `last` is the final time of the run."""
        stop = float(trajectory.stop_time)
        goes_on = trajectory.status is Status.FINISHED and stop < last
        return Outcome(
            None if goes_on else trajectory.status,
            stop,
            float(trajectory.t_star),
            float(trajectory.t_star_error),
            self.accepted + int(trajectory.n_accepted),
            self.rejected + int(trajectory.n_rejected),
            max(self.residual, float(trajectory.residual)),
            float(trajectory.lag),
        )

    def as_json(self) -> dict[str, Any]:
        """The outcome as JSON values; NaN becomes null."""
        values = asdict(self)
        values["status"] = None if self.status is None else int(self.status)
        nan = lambda v: isinstance(v, float) and math.isnan(v)
        return {key: None if nan(v) else v for key, v in values.items()}

    def ending(self) -> Ending:
        """The outcome as a store records it."""
        star = None if math.isnan(self.t_star) else self.t_star
        error = None if math.isnan(self.t_star_error) else self.t_star_error
        return Ending(self.name, self.reason, self.time, star, error)


def common(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of several flows as one: a failure, if any failed.

    Else what they share, and `finished` if they share nothing; the latest time, the
    steps of all, and a `t_star` only of a single flow.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    failed = [o for o in outcomes if o.status is not None and o.status.failed]
    going = [o for o in outcomes if o.going]
    one = len({o.status for o in outcomes}) == 1
    finished = replace(outcomes[0], status=Status.FINISHED)
    chosen = (failed or going or ([outcomes[0]] if one else [finished]))[0]
    return Outcome(
        chosen.status,
        max(o.time for o in outcomes),
        accepted=sum(o.accepted for o in outcomes),
        rejected=sum(o.rejected for o in outcomes),
        residual=max(o.residual for o in outcomes),
    )
