"""Campaigns, which compare several attentions on one task by the protocol.

`protocol.py` has the rules. A seed has the same fold, initial weights and batches for
all attentions. In `patches`, `parity` and `solids` the validation samples of the tuning
seeds are the test samples of the last fold, whose seeds are not compared. In `sorting`
and `characters` no seed is tested on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from experiments.trained.protocol import (
    GATE_LOSS,
    GATE_SAMPLES,
    LEARNING_RATE,
    TUNING_SEEDS,
    Candidate,
    Search,
)
from experiments.trained.records import Line, archive, tuning_archive
from experiments.trained.tuning import search_grids
from meanfield.reproduce import Case, Size
from meanfield.training import Recipe, TrainSpec


class Protocol(NamedTuple):
    """Conditions, recipes and seeds of a campaign.

    Attributes:
        conditions: options of the task, by their labels in the figure.
        recipe: training recipe; learning rates are multiples of its rate.
        seeds: seeds of the compared networks.
        tuning: recipe for tuning; without one, nothing is tuned.
        gate: recipe for the few samples of the gate; by default, that of the comparison
            if networks are tuned, and no gate otherwise.
    """

    conditions: Mapping[str, Mapping[str, Any]]
    recipe: Recipe
    seeds: tuple[int, ...]
    tuning: Recipe | None = None
    gate: Recipe | None = None


class Arm(NamedTuple):
    """Trained networks of one attention under one condition.

    Attributes:
        spec: training spec of the compared networks.
        lines: records of all seeds.
        search: search of hyperparameters; `None` if nothing was tuned.
        gate_loss: training loss on the few samples of the gate after training, divided
            by the test loss before training; infinite if training diverges; `None` if
            there is no gate.
    """

    spec: TrainSpec
    lines: list[Line]
    search: Search | None
    gate_loss: float | None

    @property
    def is_fully_tuned(self) -> bool:
        """Whether the search is complete, with its best setting inside the grids."""
        search = self.search
        return search is None or (search.is_complete and not search.at_end)

    @property
    def is_trained(self) -> bool:
        """Whether the attention passes the gate; true if there is no gate."""
        return self.gate_loss is None or self.gate_loss <= GATE_LOSS


@dataclass(frozen=True)
class Campaign:
    """Comparison of several attentions on one task.

    Attributes:
        task: name of the task, and of the file of records.
        candidates: attentions, by their labels in the figure.
        claims: pairs of attentions of which the first is claimed to be better.
        equal: conditions under which all attentions are claimed to be equally good.
        protocols: protocol for each problem size.
        samples: description of the training samples.
        published: sentence with the published results.
        fixed: clause on options that are not tuned, and on the rest of the network.
        control: label of the control among the candidates; empty if there is none.
        measure: quantity by which networks are compared on each test sample.
        gain: 1 if larger values of the measure are better, and -1 if smaller ones are.
        tuning_condition: condition under which all attentions are tuned; if empty, they
            are tuned separately for each condition.
    """

    task: str
    candidates: Mapping[str, Candidate]
    claims: tuple[tuple[str, str], ...]
    protocols: Mapping[Size, Protocol]
    samples: str
    published: str
    fixed: str = ""
    equal: tuple[str, ...] = ()
    control: str = ""
    measure: str = "correct"
    gain: int = 1
    tuning_condition: str = ""

    @property
    def untuned(self) -> list[str]:
        """Attentions that are not tuned, so that verdicts on them are withdrawn."""
        return [n for n, part in self.candidates.items() if part.tuned is None]

    def arms(self, case: Case) -> dict[tuple[str, str], Arm]:
        """Networks by attention and condition; missing networks are trained first."""
        conditions = self.protocols[case.size].conditions
        names = [(name, c) for c in conditions for name in self.candidates]
        return {name: self.arm(case, *name) for name in names}

    def arm(self, case: Case, name: str, condition: str) -> Arm:
        """Networks of an attention; missing networks are trained first."""
        search = self.search(case, name, condition)
        spec = self.tuned_spec(case, name, condition)
        gate_loss = self._gate_loss(case, spec, self.tuning_condition or condition)
        return Arm(spec, self.lines(case, name, spec), search, gate_loss)

    def lines(self, case: Case, name: str, spec: TrainSpec) -> list[Line]:
        """Records of the networks of a spec; missing networks are trained first."""
        del name  # only the subclass `SortModes` needs the name
        return archive(self.task, case.size).lines(spec)

    def tuned_spec(self, case: Case, name: str, condition: str) -> TrainSpec:
        """Training spec of an attention under a condition, with its best setting."""
        protocol, candidate = self.protocols[case.size], self.candidates[name]
        search = self.search(case, name, condition)
        setting = candidate.start if search is None else search.best
        options = dict(protocol.conditions[condition])
        recipe, variant = protocol.recipe, candidate.variant_at(setting)
        return TrainSpec(
            self.task, variant, _scale(recipe, setting), protocol.seeds, options
        )

    def search(self, case: Case, name: str, condition: str) -> Search | None:
        """Search of the hyperparameters; networks without a record are trained."""
        protocol, candidate = self.protocols[case.size], self.candidates[name]
        recipe = protocol.tuning
        if recipe is None or candidate.tuned is None:
            return None
        options = dict(protocol.conditions[self.tuning_condition or condition])

        def score(setting: dict[str, Any], recipe: Recipe = recipe) -> float:
            spec = TrainSpec(
                self.task,
                candidate.variant_at(setting),
                _scale(recipe, setting),
                TUNING_SEEDS,
                options,
                validation_split=True,
            )
            lines = tuning_archive(self.task, case.size).lines(spec)
            if any(line["means"] is None for line in lines):
                return -np.inf  # the learning rate is too large
            means = [line["means"][self.measure] for line in lines]
            return self.gain * float(np.mean(means))

        search = search_grids(score, candidate.start)
        finals = tuple((s, score(s, protocol.recipe)) for s in search.finalists)
        best, _ = max(finals, key=lambda pair: pair[1])
        return search._replace(best=best, finals=finals)

    def _gate_loss(self, case: Case, spec: TrainSpec, condition: str) -> float | None:
        """Training loss on a few samples, as a fraction of the test loss before."""
        protocol = self.protocols[case.size]
        gate = protocol.gate or (protocol.tuning and protocol.recipe)
        if gate is None:
            return None
        rate = spec.recipe.learning_rate
        few = replace(
            spec,
            recipe=replace(gate, learning_rate=rate),
            seeds=TUNING_SEEDS,
            options=dict(protocol.conditions[condition]),
            distinct_samples=GATE_SAMPLES,
        )
        lines = tuning_archive(self.task, case.size).lines(few)
        if any(line["means"] is None for line in lines):
            return np.inf
        return float(
            np.mean([line["train_loss"] / line["first_loss"] for line in lines])
        )


def _scale(recipe: Recipe, setting: Mapping[str, Any]) -> Recipe:
    rate = setting[LEARNING_RATE] * recipe.learning_rate
    return replace(recipe, learning_rate=rate)
