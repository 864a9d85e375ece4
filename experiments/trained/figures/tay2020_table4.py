"""tay2020, Tables 4 and 8, on another text: the next character."""

import functools

from experiments.trained.campaigns.characters import CHARACTERS
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, drawn
from meanfield.reproduce import Experiment

EXPERIMENT = Experiment(
    source="tay2020, Tables 4 and 8, of the text of King James",
    claim=(
        "Guessing the next character, softmax over all before it and sparse Sinkhorn "
        "attention do better than attention within blocks, and balancing helps."
    ),
    caption=captioned(
        "examined on {examined} others. Bits per character, medians: {scores}."
    ),
    seen=(
        "Left, a point for each network and a bar at the median. Right how many bits a "
        "network needs less than another of its seed: the mean and its interval."
    ),
    compute=functools.partial(findings, CHARACTERS),
    draw=drawn(Axis("characters of a window", "bits per character", "bits fewer")),
)
