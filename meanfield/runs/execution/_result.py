"""What a run says of itself on the way, and what it came to."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from meanfield._above import view
from meanfield._display import Card, Shown, number
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, history
from meanfield.runs.records._dataset import dataset, title
from meanfield.runs.records._endings import Outcome, common, mixed_endings
from meanfield.runs.records._fall import Fall
from meanfield.runs.representations import Arrays
from meanfield.spec import RunSpec

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Progress:
    """Where a run is, between two segments.

    Attributes:
        share: of its segments that are done.
        step_size: the mean step of the last segment; NaN if it had none.
        largest_eigenvalue: of the covariance of the first draw.
        sums: how sums over its tokens are executed; `none` where there are none.

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
class Result(Shown):
    """What a run came to; the frames are in its store, if it has one.

    Attributes:
        measures: the measure of each draw when it ended.
        outcomes: how each draw ended.
        store: where the frames are, or `None`.
        seconds: spent in integrating, compilation included.
        observed: what was observed at the last frame, by variable; of several draws
            one number for each.
        sums: how sums over the tokens of the first member were executed last.
        caveat: what is true of the flow and not obvious; else empty.
        fall: how the energy that it descends has changed; `None` without one.
        growth: the size of each measure, the root of its second moment, over that at
            the start.

    Examples:
        >>> from meanfield import runs, spec
        >>> result = runs.execute(
        ...     spec.parse({"measure": "gaussian", "A": -1.0, "t": 1.0})
        ... )
        >>> result.outcome.name, result.store
        ('finished', None)
        >>> print(result.measures[0].covariance)  # 1/(1 + 2t)
        [[0.3333]]
    """

    spec: RunSpec
    measures: tuple[AbstractMeasure, ...]
    outcomes: tuple[Outcome, ...]
    store: Path | None
    seconds: float
    observed: Arrays
    sums: str = "none"
    caveat: str = ""
    fall: Fall | None = None
    growth: tuple[float, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The ending of the run; of several draws the most severe, and the first t*."""
        return common(self.outcomes)

    @property
    def dataset(self) -> "xarray.Dataset":
        """The frames, as `meanfield.open` gives them.

        Raises:
            InvalidInputError: if the run was not stored.
        """
        if self.store is None:
            raise InvalidInputError(
                "The frames of this run were not kept: give `out=`, a folder for them."
            )
        return dataset(self.store)

    @property
    def plot(self) -> Any:
        """The panels of its frames, each a method: `run.plot.tokens()`.

        Their names are those of `meanfield list panels`.

        Raises:
            InvalidInputError: if the run was not stored.
        """
        return view("plots", self.dataset)

    @property
    @override
    def card(self) -> Card:
        outcome, (first, *others) = self.outcome, self.measures
        facts = {"ending": f"{outcome.name} at t = {number(outcome.time)}"}
        if math.isfinite(outcome.t_star):
            which = "the first at " if others else ""
            bar = number(outcome.t_star_error)
            facts["t*"] = f"{which}{outcome.t_star:.6g} ± {bar}"
        if others:
            endings = mixed_endings(self.outcomes).removesuffix(": ")
            facts["members"] = ", ".join(filter(None, (f"{1 + len(others)}", endings)))
        facts["seconds"] = number(self.seconds)
        if self.store is not None:
            facts["store"] = str(self.store)
        facts["last"] = repr(first)
        return Card(f"Run of {title(self.spec)}", facts, lambda: history([first]))

    @override
    def bare(self) -> str:
        return self.card.text
