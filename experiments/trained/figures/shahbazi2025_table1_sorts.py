"""shahbazi2025, Table 1, its sorts, on digits: is a sharper sort better, a hard one?"""

import dataclasses

import numpy as np

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.sorts import SORTS, softness
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Case, Experiment, Findings


def compute(case: Case) -> Findings:
    """What all networks say of each other, and how soft the sorts were that sharpen."""
    findings_of_all = findings(SORTS, case)
    first = PARITY.protocols[case.size].recipe.epochs
    off = f"{np.median(softness(case)):.1g}"
    numbers = {**findings_of_all.numbers, "first": first, "off": off}
    return dataclasses.replace(findings_of_all, numbers=numbers)


EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1, sorts, of digits in place of pets",
    claim=(
        "Networks of sliced attention get better when their sorts sharpen after they "
        "are taught, and better still with hard sorts in their place."
    ),
    caption=captioned(
        "examined on {examined} others. Medians in percent: {scores}.",
        " Initial networks end after {first} epochs, and the columns of their matrices "
        "are off one by {off}. The others go on from them, to the bit, at the last "
        "rate, which is a hundredth of the first: longer with the temperature that "
        "was, sharp with one that falls; hard are the sharp ones with hard sorts.",
    ),
    seen=(
        "Left, a point for each network and a bar at the median. Right, what a network "
        "has more than another of its seed: the mean and its interval. Hollow points "
        "have a verdict that is withdrawn."
    ),
    compute=compute,
    draw=drawn(Axis("images that teach", "test accuracy, %", "points more")),
)
