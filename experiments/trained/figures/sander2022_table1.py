"""sander2022, Table 1 and Figure 3, and shahbazi2025, Table 2, on generated solids."""

import functools

from experiments.trained.campaigns.solids import SOLIDS
from experiments.trained.compared import IN_PERCENT, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source=(
        "sander2022, Table 1 and Figure 3; shahbazi2025, Table 2, of generated solids"
    ),
    claim=(
        "Set transformers tell clouds of points apart better by Sinkhorn attention "
        "than by softmax, the more half-steps the better, and better still by sliced "
        "attention."
    ),
    caption=IN_PERCENT,
    seen=(
        "Left, a point for each network and a bar at the median. Right what a network "
        "has more than another of its seed: the mean and its interval. Clouds are "
        "pooled by one learned point, which under both marginals gives all points the "
        "same weight: with Sinkhorn and sliced attention it is a mean, with softmax it "
        "is not. Hollow points have a verdict that is withdrawn."
    ),
    compute=functools.partial(findings, SOLIDS),
    draw=drawn(Axis("points of a cloud", "test accuracy, %", "points more")),
)
