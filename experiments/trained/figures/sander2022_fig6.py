"""sander2022, Figure 6, and shahbazi2025, Figure 5: digits by the size of patches."""

import functools

from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.compared import IN_PERCENT, findings
from experiments.trained.panels import Axis, columns, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="sander2022, Figure 6; shahbazi2025, Figure 5",
    claim=(
        "Cut into small patches, digits are told apart better by Sinkhorn attention, "
        "and by sliced attention, than by softmax; in one patch equally well."
    ),
    caption=IN_PERCENT,
    seen=(
        "Left, a point for each network and a bar at the median. In the middle what a "
        "network has more than another of its seed: the mean and its interval. Right, "
        "how far the columns of attention matrices are from one as it learns. Hollow "
        "points have a verdict that is withdrawn."
    ),
    compute=functools.partial(findings, PATCHES),
    draw=drawn(
        Axis("side of a patch, pixels", "test accuracy, %", "points more"), columns
    ),
)
