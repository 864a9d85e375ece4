"""The progress and the result of a run."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from meanfield._display import AbstractDisplayable, Card, number
from meanfield._views import view
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, history
from meanfield.runs.records._dataset import dataset, title
from meanfield.runs.records._endings import Outcome, combine_outcomes, ending_counts
from meanfield.runs.records._energy_change import EnergyChange
from meanfield.runs.representations import Arrays
from meanfield.spec import RunSpec

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a segment.

    Attributes:
        t: the time that the run has reached.
        t_end: the final time of the run.
        share: the fraction of this call's frames that are done.
        outcome: how far the flows have come, or how they ended.
        step_size: the mean step size in the last segment; NaN if it took no steps.
        largest_eigenvalue: the largest eigenvalue of the first member's covariance.
        sums: how sums over the first member's tokens are executed; `none` if there are
            no sums.

    Examples:
        >>> from meanfield import runs, spec
        >>> shares = []
        >>> keys = {
        ...     "measure": "gaussian",
        ...     "A": -1.0,
        ...     "t": 1.0,
        ...     "frames": 9,
        ...     "segment": 4,
        ... }
        >>> _ = runs.execute(
        ...     spec.parse(keys), report=lambda now: shares.append(now.share)
        ... )
        >>> shares
        [0.5, 1.0]
    """

    t: float
    t_end: float
    share: float
    outcome: Outcome
    step_size: float
    largest_eigenvalue: float
    sums: str


Report = Callable[[Progress], None]


@dataclass(frozen=True, repr=False)
class Result(AbstractDisplayable):
    """The result of a run; its frames are in the store, if there is one.

    Attributes:
        spec: the spec of the run.
        measures: the final measure of each member.
        outcomes: how each member ended.
        store: the folder of the frames, or `None`.
        seconds: wall-clock time of the integration, compilation included.
        observables: the energies and rates at the last frame, by variable; each is a
            number, or an array for several members.
        sums: how sums over the tokens of the first member were executed last.
        note: a note on the flow, such as a limitation; empty if there is none.
        energy_change: how the energy changed along its gradient flow; `None` for other
            flows.
        growth: the growth factor of each member's size (root of the second moment).

    Examples:
        >>> from meanfield import runs, spec
        >>> result = runs.execute(
        ...     spec.parse({"measure": "gaussian", "A": -1.0, "t": 1.0})
        ... )
        >>> result.outcome.name, result.status == meanfield.Status.FINISHED
        ('finished', True)
        >>> print(result.measures[0].covariance)  # 1/(1 + 2t)
        [[0.3333]]
    """

    spec: RunSpec
    measures: tuple[AbstractMeasure, ...]
    outcomes: tuple[Outcome, ...]
    store: Path | None
    seconds: float
    observables: Arrays
    sums: str = "none"
    note: str = ""
    energy_change: EnergyChange | None = None
    growth: tuple[float, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The combined outcome, with the most severe ending and the earliest t*."""
        return combine_outcomes(self.outcomes)

    @property
    def status(self) -> Status | None:
        """The ending of `outcome`, such as `Status.BLOW_UP`; `None` if unfinished."""
        return self.outcome.status

    @property
    def dataset(self) -> "xarray.Dataset":
        """The frames as a dataset, in the form that `meanfield.open` returns.

        Raises:
            InvalidInputError: if the run was not stored.
        """
        if self.store is None:
            raise InvalidInputError(
                "The frames of this run were not stored: pass a folder as `out`."
            )
        return dataset(self.store)

    @property
    def plot(self) -> Any:
        """Methods that draw the panels of this run, such as `run.plot.tokens()`.

        `meanfield list panels` lists the names of the panels.

        Raises:
            InvalidInputError: if the run was not stored.
        """
        return view("plots", self.dataset)

    @property
    @override
    def card(self) -> Card:
        outcome, (first, *rest) = self.outcome, self.measures
        facts = {"ending": f"{outcome.name} at t = {number(outcome.time)}"}
        if math.isfinite(outcome.t_star):
            prefix = "the first at " if rest else ""
            bar = number(outcome.t_star_error)
            facts["t*"] = f"{prefix}{outcome.t_star:.6g} ± {bar}"
        if rest:
            endings = ending_counts(self.outcomes).removesuffix(": ")
            facts["members"] = ", ".join(filter(None, (f"{1 + len(rest)}", endings)))
        facts["seconds"] = number(self.seconds)
        if self.store is not None:
            facts["store"] = str(self.store)
        facts["last"] = repr(first)
        return Card(f"Run of {title(self.spec)}", facts, lambda: history([first]))

    @override
    def plain_repr(self) -> str:
        return self.card.text
