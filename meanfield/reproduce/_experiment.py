"""What an experiment is: something computed, a picture of it, a claim in a sentence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import xarray as xr
from matplotlib.figure import Figure

Size = Literal["quick", "paper"]
Reading = Literal["text", "code", "corrected", "iid"]


@dataclass(frozen=True)
class Case:
    """What is asked of an experiment.

    Attributes:
        size: `paper` as published, `quick` the same with less of everything.
        reading: `text` what the paper says, solved to tolerance; `code` the procedure
            that was published with it; `corrected` the text under a hypothesis that
            makes its claim true; `iid` the text with all entries of V independent.

    Examples:
        >>> from meanfield.reproduce import Case
        >>> Case(size="quick").reading
        'text'
    """

    size: Size = "paper"
    reading: Reading = "text"


@dataclass(frozen=True)
class Findings:
    """What an experiment found.

    Attributes:
        spec: JSON values that it can be repeated from, its seed among them.
        numbers: JSON values that were measured; captions hold these and no others.
        data: what is drawn, by name.

    Examples:
        >>> from meanfield.reproduce import Findings
        >>> Findings(spec={"A": -1.0}, numbers={"gap": 1e-6}, data={}).numbers["gap"]
        1e-06
    """

    spec: Mapping[str, Any]
    numbers: Mapping[str, Any]
    data: Mapping[str, xr.Dataset]


@dataclass(frozen=True)
class Experiment:
    """A figure of the literature.

    Attributes:
        source: key and number of the figure: `castin2025, Figure 1(a)`.
        claim: what the figure shows, in a sentence.
        caption: a template whose fields are entries of `Findings.numbers`, formatted
            as by `str.format`: `{starts} starts, {endings[steady]} at rest`.
        compute: finds.
        draw: the figure of what was found.
        readings: those that differ; the first is the default.
        seen: what a reader sees in the picture, in a sentence or two; the gallery says
            it before the numbers.
        variants: those of the readings that claim something else, each as an
            experiment of its own; `read_as` finds them.

    Examples:
        >>> from meanfield.reproduce import load
        >>> experiment = load("castin2025-fig1b")
        >>> experiment.readings
        ('text', 'code')
        >>> load("castin2025-fig1a").read_as("corrected").claim[:45]
        'Where A + Aᵀ is negative definite and V is sy'
    """

    source: str
    claim: str
    caption: str
    compute: Callable[[Case], Findings]
    draw: Callable[[Findings], Figure]
    readings: tuple[Reading, ...] = ("text",)
    seen: str = ""
    variants: Mapping[Reading, "Experiment"] = field(default_factory=dict)

    def read_as(self, reading: Reading) -> "Experiment":
        """The experiment of a reading: another one where that claims something else."""
        return self.variants.get(reading, self)
