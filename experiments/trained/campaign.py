"""Campaigns: one task, several attentions, the same seeds, each at the best of rates.

Each variant is taught at half, once and twice a rate on two seeds, examined on a
quarter of what would teach them, and then at the best of the three on all seeds, which
share fold, first weights and batches with the seeds of the others. That quarter is no
test of these two seeds, but of other seeds it may be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from experiments.trained.records import Archive, Line, archive, scores
from meanfield.reproduce import Case, Size
from meanfield.training import Recipe, TrainSpec, Variant

FACTORS = 0.5, 1.0, 2.0  # of the rate of a recipe


class Protocol(NamedTuple):
    """How much is trained.

    Attributes:
        conditions: options of the task, by what a figure calls them.
        recipe: how networks are taught; its rate is the middle of the grid.
        rehearsing: the seeds by which rates are chosen; none takes the middle.
        seeds: of the networks that are compared.
        rehearsal: how rates are rehearsed, at each of the grid; as the recipe if
            `None`.
    """

    conditions: Mapping[str, Mapping[str, Any]]
    recipe: Recipe
    rehearsing: tuple[int, ...]
    seeds: tuple[int, ...]
    rehearsal: Recipe | None = None


class Networks(NamedTuple):
    """Networks by variant and condition.

    Attributes:
        protocol: how much was trained.
        specs: the training of each kind.
        lines: what is recorded of each seed.
    """

    protocol: Protocol
    specs: dict[tuple[str, str], TrainSpec]
    lines: dict[tuple[str, str], list[Line]]


@dataclass(frozen=True)
class Campaign:
    """What is compared.

    Attributes:
        task: its name, and that of the file of records.
        variants: attentions, by what a figure calls them.
        claims: pairs of variants of which the first is said to do better.
        alike: conditions under which all variants are said to do equally well.
        protocols: how much is trained, by size.
        items: what teaches, in words.
        published: what the source printed, in words.
        measure: of items, by which networks are compared.
        gain: 1 if a large measure is good, and -1 if a small one is.
        rates_of: the condition at which rates are chosen for all; each has its own if
            empty.
        untuned: variants whose attention was not tuned; verdicts on them are withdrawn.
    """

    task: str
    variants: Mapping[str, Variant]
    claims: tuple[tuple[str, str], ...]
    protocols: Mapping[Size, Protocol]
    items: str
    published: str
    alike: tuple[str, ...] = ()
    measure: str = "correct"
    gain: int = 1
    rates_of: str = ""
    untuned: tuple[str, ...] = ()

    def networks(self, case: Case) -> Networks:
        """All networks, from their records or trained now."""
        protocol = self.protocols[case.size]
        arms = [(name, c) for c in protocol.conditions for name in self.variants]
        specs = {arm: self.chosen(case, *arm) for arm in arms}
        lines = {a: self.lines(case, a[0], spec) for a, spec in specs.items()}
        return Networks(protocol, specs, lines)

    def lines(self, case: Case, name: str, spec: TrainSpec) -> list[Line]:
        """What is recorded of the networks of a variant; what is not is trained."""
        del name  # Networks of all variants are recorded alike.
        return archive(self.task, case.size).lines(spec)

    def chosen(self, case: Case, name: str, condition: str) -> TrainSpec:
        """The training of a variant under a condition, at its best rate."""
        protocol = self.protocols[case.size]
        kept = archive(self.task, case.size)
        rate = self._rate(kept, protocol, name, self.rates_of or condition)
        return self._spec(protocol, name, condition, rate)

    def at_an_end(self, spec: TrainSpec, size: Size) -> bool:
        """Whether its rate is the least or the greatest that was tried."""
        return spec.recipe.rate != self.protocols[size].recipe.rate

    def _spec(
        self, protocol: Protocol, name: str, condition: str, rate: float
    ) -> TrainSpec:
        return TrainSpec(
            self.task,
            self.variants[name],
            replace(protocol.recipe, rate=rate),
            protocol.seeds,
            dict(protocol.conditions[condition]),
        )

    def _rate(
        self, kept: Archive, protocol: Protocol, name: str, condition: str
    ) -> float:
        """The best rate of the grid, or its middle where nothing is rehearsed."""
        if not protocol.rehearsing:
            return protocol.recipe.rate
        grid = [factor * protocol.recipe.rate for factor in FACTORS]
        means = []
        for rate in grid:
            spec = replace(
                self._spec(protocol, name, condition, rate),
                recipe=replace(protocol.rehearsal or protocol.recipe, rate=rate),
                seeds=protocol.rehearsing,
                rehearsal=True,
            )
            lines = kept.lines(spec)
            means.append(np.mean([scores(line, self.measure) for line in lines]))
        return grid[int(np.argmax(self.gain * np.array(means)))]
