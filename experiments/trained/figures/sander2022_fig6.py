"""sander2022, Figure 6, and shahbazi2025, Figure 5: digits, for several patch sizes."""

import functools

from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.comparison import CAPTION, findings, table
from experiments.trained.panels import (
    Axis,
    draw_column_errors,
    draw_perplexities,
    make_draw,
)
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="sander2022, Figure 6; shahbazi2025, Figure 5",
    claim=(
        "On small patches, Sinkhorn and sliced attention classify digits better than "
        "softmax; on one patch all are equal."
    ),
    caption=CAPTION,
    table=table,
    description=(
        "Left, the score of each network, with a bar at the median. Second, paired "
        "differences: their mean and its interval; hollow points have no "
        "verdict. Then, for patches of side 7, the error of the column sums of "
        "attention matrices during training, and scores by the perplexity of their "
        "rows."
    ),
    compute=functools.partial(findings, PATCHES),
    draw=make_draw(
        Axis(
            "Digits in patches, one attention block",
            "side of a patch, pixels",
            "test accuracy, %",
            "difference in points",
        ),
        draw_column_errors,
        draw_perplexities,
    ),
)
