"""tay2020, Tables 4 and 8, on another text: the next character."""

import functools

from experiments.trained.campaigns.characters import CHARACTERS
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="tay2020, Tables 4 and 8, of the text of King James",
    claim=(
        "For prediction of the next character, causal softmax and sparse Sinkhorn "
        "attention are better than local attention within blocks, and balancing helps."
    ),
    caption=captioned(
        "evaluated on {examined} others; bits per character, medians: {scores}."
    ),
    description=(
        "Left, the score of each network, with a bar at the median. Right, paired "
        "differences in bits per character: their mean and its interval."
    ),
    compute=functools.partial(findings, CHARACTERS),
    draw=drawn(Axis("characters of a window", "bits per character", "bits fewer")),
)
