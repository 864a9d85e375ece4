"""shahbazi2025, Table 1, and sander2022, Figure 5, on digits: odd or even, of few?"""

import functools

from experiments.trained.campaigns.parity import PARITY
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, columns, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1; sander2022, Figure 5, of digits in place of pets",
    claim=(
        "Vision transformers learn better by Sinkhorn attention than by softmax, and "
        "better still by sliced attention, most of all from few images; better "
        "than by softmax, too, by differential attention."
    ),
    caption=captioned(
        "examined on {examined} others. Medians in percent: {scores}.",
        " The λ of differential attention learns, from one half; its heads are not "
        "normalised.",
    ),
    seen=(
        "Left, a point for each network and a bar at the median. In the middle what a "
        "network has more than another of its seed: the mean and its interval. Right, "
        "how far the columns of attention matrices are from one, over layers and heads."
        " Hollow points have a verdict that is withdrawn."
    ),
    compute=functools.partial(findings, PARITY),
    draw=drawn(Axis("images that teach", "test accuracy, %", "points more"), columns),
)
