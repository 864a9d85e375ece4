"""sander2022, Figure 6, and shahbazi2025, Figure 5: digits by the size of patches."""

import functools

from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.compared import IN_PERCENT, findings
from experiments.trained.panels import Axis, columns, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="sander2022, Figure 6; shahbazi2025, Figure 5",
    claim=(
        "On small patches, Sinkhorn and sliced attention classify digits better than "
        "softmax; on one patch all are equal."
    ),
    caption=IN_PERCENT,
    description=(
        "Left, the score of each network, with a bar at the median. Middle, paired "
        "differences: their mean and its interval; hollow points have a withdrawn "
        "verdict. Right, the error of the column sums of attention matrices during "
        "training."
    ),
    compute=functools.partial(findings, PATCHES),
    draw=drawn(
        Axis("side of a patch, pixels", "test accuracy, %", "points more"), columns
    ),
)
