"""sander2022, Table 1 and Figure 3, and shahbazi2025, Table 2, on generated solids."""

import functools

from experiments.trained.campaigns.earlier import EARLIER_SOLIDS
from experiments.trained.comparison import CAPTION, findings, table
from experiments.trained.panels import Axis, make_draw
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source=(
        "sander2022, Table 1 and Figure 3; shahbazi2025, Table 2, of generated solids"
    ),
    claim=(
        "Set transformers classify point clouds better with Sinkhorn attention than "
        "with softmax, and better with more half-steps; best with sliced attention."
    ),
    caption=CAPTION,
    table=table,
    description=(
        "Left, the score of each network, with a bar at the median. Right, paired "
        "differences: their mean and its interval; hollow points have no "
        "verdict. Clouds are pooled by attention of one trained query: this is the "
        "mean under Sinkhorn and sliced attention, whose marginals are uniform, but "
        "not under softmax."
    ),
    compute=functools.partial(findings, EARLIER_SOLIDS),
    draw=make_draw(
        Axis(
            "Solids, set transformers",
            "points of a cloud",
            "test accuracy, %",
            "difference in points",
        )
    ),
)
