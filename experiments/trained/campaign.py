"""Campaigns: one task, several attentions, the same seeds, each at its best rate.

Each variant is taught at half, once and twice a rate on two seeds, examined on a
quarter of what would teach it, and then at the best of them on all seeds, which share
fold, first weights and batches with the seeds of the others.
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
    """

    conditions: Mapping[str, Mapping[str, Any]]
    recipe: Recipe
    rehearsing: tuple[int, ...]
    seeds: tuple[int, ...]


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
        protocols: how much is trained, by size.
        measure: of items, by which networks are compared.
        gain: 1 if a large measure is good, and -1 if a small one is.
        rates_of: the condition at which rates are chosen for all; each has its own if
            empty.
    """

    task: str
    variants: Mapping[str, Variant]
    claims: tuple[tuple[str, str], ...]
    protocols: Mapping[Size, Protocol]
    measure: str = "correct"
    gain: int = 1
    rates_of: str = ""

    def networks(self, case: Case) -> Networks:
        """All networks, from their records or trained now."""
        protocol = self.protocols[case.size]
        arms = [(name, c) for c in protocol.conditions for name in self.variants]
        made = {arm: self.arm(case, *arm) for arm in arms}
        specs = {arm: spec for arm, (spec, _) in made.items()}
        return Networks(protocol, specs, {arm: own for arm, (_, own) in made.items()})

    def arm(
        self, case: Case, name: str, condition: str
    ) -> tuple[TrainSpec, list[Line]]:
        """One variant under one condition: its training, and its lines."""
        protocol = self.protocols[case.size]
        kept = archive(self.task, case.size)
        rate = self._rate(kept, protocol, name, self.rates_of or condition)
        spec = self._spec(protocol, name, condition, rate)
        return spec, kept.lines(spec)

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
            spec = self._spec(protocol, name, condition, rate)
            spec = replace(spec, seeds=protocol.rehearsing, rehearsal=True)
            lines = kept.lines(spec)
            means.append(np.mean([scores(line, self.measure) for line in lines]))
        return grid[int(np.argmax(self.gain * np.array(means)))]
