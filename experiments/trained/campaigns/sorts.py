"""Sliced attention whose sorts sharpen once it is taught, or are made hard.

Soft sorts are taught as in `parity`; then their temperature falls epoch by epoch, and
at last the same networks are examined with hard sorts. As many epochs at the first
temperature tell what sharpening does from what more epochs do.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import override

from experiments.trained.campaign import Campaign, Networks, Protocol
from experiments.trained.campaigns.parity import PARITY
from experiments.trained.records import Line, archive, packed, scored
from meanfield.reproduce import Case, Size
from meanfield.training import Cooling, Recipe, TrainSpec, Variant, examined

HARD = Variant("esp", {"slices": 8, "tau": 0.1})
FALL = 0.8  # of the temperature, each epoch


@dataclass(frozen=True)
class SortModes(Campaign):
    """Sliced networks of `parity`, taught for longer."""

    @override
    def chosen(self, case: Case, name: str, condition: str) -> TrainSpec:
        soft = PARITY.chosen(case, "sliced", condition)
        epochs = self.protocols[case.size].recipe.epochs
        longer = replace(soft, recipe=replace(soft.recipe, epochs=epochs))
        if name == "soft":
            return longer
        cooling = Cooling("temperature", FALL, after=soft.recipe.epochs)
        return replace(longer, recipe=replace(longer.recipe, cooling=cooling))

    @override
    def networks(self, case: Case) -> Networks:
        protocol = self.protocols[case.size]
        arms = [(name, c) for c in protocol.conditions for name in self.variants]
        specs = {arm: self.chosen(case, *arm) for arm in arms}
        lines = {arm: _lines(arm[0], spec, case.size) for arm, spec in specs.items()}
        return Networks(protocol, specs, lines)

    @override
    def at_an_end(self, spec: TrainSpec, size: Size) -> bool:
        return PARITY.at_an_end(spec, size)


def _lines(name: str, spec: TrainSpec, size: Size) -> list[Line]:
    if spec.recipe.cooling is None:
        return archive(PARITY.task, size).lines(spec)
    lines = archive(PARITY.task, size, _sharp_and_hard).lines(spec)
    if name == "hard":
        return [{**line, "correct": line["hard"], "seconds": 0.0} for line in lines]
    return lines


def _sharp_and_hard(folder: Path) -> list[Line]:
    """Lines of a training, with what hard sorts in the same networks get right."""
    hard = examined(folder, HARD)["correct"]
    return [{**line, "hard": packed(hard[i])} for i, line in enumerate(scored(folder))]


def _longer(size: Size, epochs: int) -> Protocol:
    """As networks of `parity` on most images, with more epochs."""
    protocol = PARITY.protocols[size]
    name, options = list(protocol.conditions.items())[-1]
    recipe: Recipe = replace(protocol.recipe, epochs=epochs)
    return protocol._replace(conditions={name: options}, recipe=recipe)


SORTS = SortModes(
    task="parity",
    variants={
        "soft": PARITY.variants["sliced"],
        "sharp": PARITY.variants["sliced"],
        "hard": HARD,
    },
    claims=(("sharp", "soft"), ("hard", "soft"), ("hard", "sharp")),
    protocols={"paper": _longer("paper", 50), "quick": _longer("quick", 2)},
    items="4 000 digits an epoch",
    published=(
        "Table 1, of cats and dogs, from 1 %, 10 %, 25 % and all of 25 000: soft "
        "55.66, 71.49, 75.40, 79.47; sharp 57.86, 72.22, 75.92, 80.61; hard 58.52, "
        "72.71, 75.92, 81.23."
    ),
)
