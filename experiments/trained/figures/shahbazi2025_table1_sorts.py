"""shahbazi2025, Table 1, on digits: are sharper or hard sorts better?"""

import dataclasses

import numpy as np

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.campaigns.sorts import SORTS, softness
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Case, Experiment, Findings


def compute(case: Case) -> Findings:
    """Comparison of all networks, and the column errors before the sorts sharpen."""
    findings_of_all = findings(SORTS, case)
    first = PARITY.protocols[case.size].recipe.epochs
    off = f"{np.median(softness(case)):.1g}"
    numbers = {**findings_of_all.numbers, "first": first, "off": off}
    return dataclasses.replace(findings_of_all, numbers=numbers)


EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1, sorts, of digits in place of pets",
    claim=(
        "Networks with sliced attention improve if their sorts are sharpened after "
        "training, and improve further with hard sorts in their place."
    ),
    caption=captioned(
        "evaluated on {examined} others; medians in percent: {scores}.",
        " Initial networks have {first} epochs, and their column sums are off by "
        "{off}; the others continue from them at a hundredth of the first learning "
        "rate: longer at the same temperature, sharp with a falling temperature, and "
        "hard are the sharp ones with hard sorts.",
    ),
    description=(
        "Left, the score of each network, with a bar at the median. Right, paired "
        "differences: their mean and its interval; hollow points have a withdrawn "
        "verdict."
    ),
    compute=compute,
    draw=drawn(Axis("images that teach", "test accuracy, %", "points more")),
)
