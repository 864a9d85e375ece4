"""tay2020, Tables 4 and 8: prediction of the next character, for another text."""

import functools

from experiments.trained.campaigns.earlier import EARLIER_CHARACTERS
from experiments.trained.comparison import CAPTION, findings, table
from experiments.trained.panels import Axis, make_draw
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="tay2020, Tables 4 and 8, of the text of King James",
    claim=(
        "For prediction of the next character, causal softmax and sparse Sinkhorn "
        "attention are better than local attention within blocks, and balancing helps."
    ),
    caption=CAPTION,
    table=table,
    description=(
        "Left, the score of each network, with a bar at the median. Right, paired "
        "differences in bits per character: their mean and its interval."
    ),
    compute=functools.partial(findings, EARLIER_CHARACTERS),
    draw=make_draw(
        Axis(
            "Characters of King James, two layers",
            "characters of a window",
            "bits per character",
            "decrease in bits",
        )
    ),
)
