"""Experiments: each reproduces a figure, with a computation, a picture and a claim."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import xarray as xr
from matplotlib.figure import Figure

Size = Literal["quick", "paper"]
Reading = Literal["text", "code", "corrected", "iid"]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Case:
    """The problem size of an experiment, and the reading of the paper that it follows.

    Attributes:
        size: problem size: `paper` as published, or `quick`, which is smaller.
        reading: `text`, the text of the paper, solved to tolerance; `code`, the
            published code; `corrected`, the text under a hypothesis that makes its
            claim true; or `iid`, the text with all entries of V independent.

    Examples:
        >>> from meanfield.reproduce import Case
        >>> Case(size="quick").reading
        'text'
    """

    size: Size = "paper"
    reading: Reading = "text"


@dataclass(frozen=True)
class Findings:
    """The results of an experiment.

    Attributes:
        spec: JSON values that define the experiment, including its seed.
        numbers: measured JSON values; the only numbers in captions and tables.
        data: the datasets to draw, by name.

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
    """The reproduction of a figure from the literature.

    Attributes:
        source: key and number of the figure: `castin2025, Figure 1(a)`.
        claim: what the figure shows, in one sentence.
        caption: a template for `str.format`, whose fields are entries of
            `Findings.numbers`: `{starts} starts, {endings[steady]} at rest`.
        compute: computes the findings of a case.
        draw: draws the figure from the findings.
        readings: the possible readings of the paper; the first is the default.
        description: what one sees in the picture, in a sentence or two; the gallery
            shows it before the caption.
        table: computes, from `Findings.numbers`, the rows of the table below the
            caption; the first row has the headings. `None` if there is no table.
        variants: experiments for readings under which the figure has a different
            claim; `read_as` returns them.

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
    description: str = ""
    table: Callable[[Mapping[str, Any]], Rows] | None = None
    variants: Mapping[Reading, "Experiment"] = field(default_factory=dict)

    def texts(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Source, claim, caption and table for given numbers, as JSON values.

        Examples:
            >>> from meanfield.reproduce import Experiment
            >>> texts = "a paper, Figure 1", "tokens meet", "{n} tokens over time."
            >>> Experiment(*texts, compute=print, draw=print).texts({"n": 3})["caption"]
            '3 tokens over time.'
        """
        table = [] if self.table is None else self.table(numbers)
        return {
            "source": self.source,
            "claim": self.claim,
            "caption": self.caption.format_map(numbers),
            "table": [list(row) for row in table],
        }

    def read_as(self, reading: Reading) -> "Experiment":
        """The experiment for a reading: its variant, or else this experiment."""
        return self.variants.get(reading, self)
