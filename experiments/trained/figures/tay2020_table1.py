"""tay2020, Table 1: sorting of sequences, by length."""

import numpy as np
import xarray as xr

from experiments.trained.campaigns.sorting import SORTING
from experiments.trained.compared import captioned, findings
from experiments.trained.panels import Axis, by_length, drawn
from experiments.trained.records import Line, scores
from meanfield.reproduce import Case, Experiment, Findings


def compute(case: Case) -> Findings:
    """Comparison of all networks, and their accuracy at each length."""
    found = findings(SORTING, case)
    trained = SORTING.networks(case)
    (condition,) = trained.protocol.conditions
    longest = trained.protocol.conditions[condition]["length"]
    lines = {name: trained.lines[name, condition] for name in SORTING.variants}
    at = np.arange(1, 2 * longest + 1)
    right = np.array([_right(own, at) for own in lines.values()])
    data = found.data["networks"].assign(
        right=xr.DataArray(right, dims=("variant", "length"), coords={"length": at})
    )
    taught = {
        name: f"{row[:longest].mean():.1f} and {row[longest:].mean():.1f}"
        for name, row in zip(lines, right, strict=True)
    }
    told = "; ".join(f"{name} {pair}" for name, pair in taught.items())
    return Findings(
        spec=found.spec,
        numbers={**found.numbers, "longest": longest, "taught": told},
        data={"networks": data},
    )


def _right(lines: list[Line], at: np.ndarray) -> np.ndarray:
    """Accuracy in percent at each length."""
    length = np.concatenate([scores(line, "length") for line in lines])
    correct = np.concatenate([scores(line, "correct") for line in lines])
    share = lambda n: correct[length == n].mean() if np.any(length == n) else np.nan
    return 100 * np.array([share(n) for n in at])


EXPERIMENT = Experiment(
    source="tay2020, Table 1, of shorter sequences",
    claim=(
        "Sparse Sinkhorn attention sorts better than local attention within blocks, "
        "and than full softmax."
    ),
    caption=captioned(
        "{examined} test sequences; exact matches in percent, medians: {scores}; means "
        "over training lengths and over longer ones: {taught}.",
        " A network that sorts exactly the training lengths is correct half of the "
        "time.",
    ),
    description=(
        "Left, the score of each network, with a bar at the median. Middle, paired "
        "differences: their mean and its interval; hollow points have a withdrawn "
        "verdict. Right, the accuracy at each length."
    ),
    compute=compute,
    draw=drawn(
        Axis("longest training length", "exact match, %", "points more"), by_length
    ),
)
