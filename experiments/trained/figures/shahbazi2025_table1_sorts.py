"""shahbazi2025, Table 1, its sorts, on digits: is a sharper sort better, a hard one?"""

import dataclasses

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.sorts import SORTS
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Case, Experiment, Findings


def compute(case: Case) -> Findings:
    """What all networks say of each other, and how soft the sorts were that sharpen."""
    found = findings(SORTS, case)
    first = PARITY.protocols[case.size].recipe.epochs
    soft = found.data["networks"]["rms"].sel(variant="soft", epoch=first)
    off = f"{float(soft.median()):.1g}"
    return dataclasses.replace(
        found, numbers={**found.numbers, "first": first, "off": off}
    )


EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1, sorts, of digits in place of pets",
    claim=(
        "Networks of sliced attention get better when their sorts sharpen after they "
        "are taught, and better still with hard sorts in their place."
    ),
    caption=captioned(
        "examined on {examined} others. Medians in percent: {scores}.",
        " After {first} epochs the temperature of sharp sorts falls; until then they "
        "are the networks of soft ones, to the bit, and columns of their matrices are "
        "off one by {off}. Hard are the sharp ones with hard sorts.",
    ),
    seen=(
        "Left, a point for each network and a bar at the median. Right, what a network "
        "has more than another of its seed: the mean and its interval."
    ),
    compute=compute,
    draw=drawn(Axis("images that teach", "test accuracy, %", "points more")),
)
