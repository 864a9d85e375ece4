"""shahbazi2025, Table 1, and sander2022, Figure 5, for the parity of digits."""

import functools

from experiments.trained.campaigns.earlier import EARLIER_PARITY
from experiments.trained.comparison import CAPTION, findings, table
from experiments.trained.panels import Axis, draw_column_errors, make_draw
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1; sander2022, Figure 5, of digits in place of pets",
    claim=(
        "Vision transformers are more accurate with Sinkhorn attention than with "
        "softmax, and most accurate with sliced attention, especially for few training "
        "images; differential attention is also better than softmax."
    ),
    caption=CAPTION,
    table=table,
    description=(
        "Left, the score of each network, with a bar at the median. Second, paired "
        "differences: their mean and its interval; hollow points have no "
        "verdict. Third, the error of the column sums of attention matrices, over "
        "layers and heads. The λ of differential attention is trained from ½, and its "
        "heads are not normalised."
    ),
    compute=functools.partial(findings, EARLIER_PARITY),
    draw=make_draw(
        Axis(
            "Odd and even digits, vision transformers of two layers",
            "training images",
            "test accuracy, %",
            "difference in points",
        ),
        draw_column_errors,
    ),
)
