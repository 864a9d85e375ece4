"""Campaigns, which compare several attentions on one task, with tuned learning rates.

For each attention, networks are first trained on two seeds at three learning rates:
the rate of the recipe, half of it and twice it. They are evaluated on a held-out
quarter of their training samples. Then networks are trained at the best rate on all
seeds; a seed has the same fold, initial weights and batches for all attentions. The
quarter contains no test samples of the two seeds, but can contain those of other seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from experiments.trained.records import Archive, Line, archive, scores
from meanfield.reproduce import Case, Size
from meanfield.training import Recipe, TrainSpec, Variant

FACTORS = 0.5, 1.0, 2.0  # learning rates to try, as multiples of the rate in the recipe


class Protocol(NamedTuple):
    """Conditions, recipes and seeds of a campaign.

    Attributes:
        conditions: options of the task, by their labels in the figure.
        recipe: training recipe; its learning rate is the middle of the three tried.
        tuning_seeds: seeds for choosing learning rates; if empty, the learning rate of
            the recipe is used.
        seeds: seeds of the compared networks.
        tuning_recipe: recipe for choosing learning rates; `recipe` if `None`.
    """

    conditions: Mapping[str, Mapping[str, Any]]
    recipe: Recipe
    tuning_seeds: tuple[int, ...]
    seeds: tuple[int, ...]
    tuning_recipe: Recipe | None = None


class Networks(NamedTuple):
    """Trained networks by variant and condition.

    Attributes:
        protocol: protocol of the campaign.
        specs: training spec by variant and condition.
        lines: records of all seeds, by variant and condition.
    """

    protocol: Protocol
    specs: dict[tuple[str, str], TrainSpec]
    lines: dict[tuple[str, str], list[Line]]


@dataclass(frozen=True)
class Campaign:
    """Comparison of several attentions on one task.

    Attributes:
        task: name of the task, and of the file of records.
        variants: attentions, by their labels in the figure.
        claims: pairs of variants of which the first is claimed to be better.
        equal: conditions under which all variants are claimed to be equally good.
        protocols: protocol for each problem size.
        samples: description of the training samples.
        published: sentence with the published results.
        measure: quantity by which networks are compared on each test sample.
        gain: 1 if larger values of the measure are better, and -1 if smaller ones are.
        tuning_condition: condition under which all learning rates are chosen; if
            empty, they are chosen separately for each condition.
        untuned: variants whose attention was not tuned; verdicts on them are withdrawn.
    """

    task: str
    variants: Mapping[str, Variant]
    claims: tuple[tuple[str, str], ...]
    protocols: Mapping[Size, Protocol]
    samples: str
    published: str
    equal: tuple[str, ...] = ()
    measure: str = "correct"
    gain: int = 1
    tuning_condition: str = ""
    untuned: tuple[str, ...] = ()

    def networks(self, case: Case) -> Networks:
        """Records of all networks; networks without a record are trained first."""
        protocol = self.protocols[case.size]
        arms = [(name, c) for c in protocol.conditions for name in self.variants]
        specs = {arm: self.tuned_spec(case, *arm) for arm in arms}
        lines = {a: self.lines(case, a[0], spec) for a, spec in specs.items()}
        return Networks(protocol, specs, lines)

    def lines(self, case: Case, name: str, spec: TrainSpec) -> list[Line]:
        """Records of the networks of a spec; missing networks are trained first."""
        del name  # only the subclass `SortModes` needs the name
        return archive(self.task, case.size).lines(spec)

    def tuned_spec(self, case: Case, name: str, condition: str) -> TrainSpec:
        """Training spec of a variant under a condition, at its best learning rate."""
        protocol = self.protocols[case.size]
        records = archive(self.task, case.size)
        rate = self._best_rate(
            records, protocol, name, self.tuning_condition or condition
        )
        return self._spec(protocol, name, condition, rate)

    def is_rate_at_end(self, spec: TrainSpec, size: Size) -> bool:
        """Whether the best learning rate is the smallest or largest one tried."""
        return spec.recipe.learning_rate != self.protocols[size].recipe.learning_rate

    def _spec(
        self, protocol: Protocol, name: str, condition: str, rate: float
    ) -> TrainSpec:
        return TrainSpec(
            self.task,
            self.variants[name],
            replace(protocol.recipe, learning_rate=rate),
            protocol.seeds,
            dict(protocol.conditions[condition]),
        )

    def _best_rate(
        self, records: Archive, protocol: Protocol, name: str, condition: str
    ) -> float:
        """The best learning rate tried; without `tuning_seeds`, the recipe's rate."""
        if not protocol.tuning_seeds:
            return protocol.recipe.learning_rate
        grid = [factor * protocol.recipe.learning_rate for factor in FACTORS]
        recipe, means = protocol.tuning_recipe or protocol.recipe, []
        for rate in grid:
            spec = replace(
                self._spec(protocol, name, condition, rate),
                recipe=replace(recipe, learning_rate=rate),
                seeds=protocol.tuning_seeds,
                validation_split=True,
            )
            lines = records.lines(spec)
            means.append(np.mean([scores(line, self.measure) for line in lines]))
        return grid[int(np.argmax(self.gain * np.array(means)))]
