"""shahbazi2025, Table 1, and sander2022, Figure 5, on digits: parity, few samples."""

import functools

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, columns, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1; sander2022, Figure 5, of digits in place of pets",
    claim=(
        "Vision transformers are more accurate with Sinkhorn attention than with "
        "softmax, and most accurate with sliced attention, especially for few training "
        "images; differential attention is also better than softmax."
    ),
    caption=captioned(
        "evaluated on {examined} others; medians in percent: {scores}.",
        " The λ of differential attention is trained, from one half; its heads are not "
        "normalised.",
    ),
    description=(
        "Left, the score of each network, with a bar at the median. Middle, paired "
        "differences: their mean and its interval; hollow points have a withdrawn "
        "verdict. Right, the error of the column sums of attention matrices, over "
        "layers and heads."
    ),
    compute=functools.partial(findings, PARITY),
    draw=drawn(Axis("images that teach", "test accuracy, %", "points more"), columns),
)
