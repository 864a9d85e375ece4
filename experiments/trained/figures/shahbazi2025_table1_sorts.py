"""shahbazi2025, Table 1, its sorts, on digits: is a sharper sort better, a hard one?"""

import dataclasses

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.sorts import SORTS
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Case, Experiment, Findings


def compute(case: Case) -> Findings:
    """What all networks say of each other."""
    found = findings(SORTS, case)
    first = PARITY.protocols[case.size].recipe.epochs
    return dataclasses.replace(found, numbers={**found.numbers, "first": first})


EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1, sorts, of digits in place of pets",
    claim=(
        "Networks of sliced attention get better when their sorts sharpen after they "
        "are taught, and better still with hard sorts in their place."
    ),
    caption=captioned(
        "examined on {examined} others. Medians in percent: {scores}.",
        " Softmax, Sinkhorn and sliced are taught for {first} epochs, after which the "
        "temperature of sharp sorts falls.",
    ),
    seen=(
        "Left, a point for each network and a bar at the median: softmax, Sinkhorn and "
        "sliced are those of shahbazi2025-table1, longer has as many epochs as sharp "
        "at the first temperature, and hard is sharp with hard sorts in its place. "
        "Right, what a network has more than another of its seed: the mean and its "
        "interval."
    ),
    compute=compute,
    draw=drawn(Axis("images that teach", "test accuracy, %", "points more")),
)
