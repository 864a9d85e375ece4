"""tay2020, Table 1: accuracy of sorting, by the length of the sequence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from experiments.trained.campaigns.earlier import EARLIER_SORTING
from experiments.trained.comparison import CAPTION, findings, table
from experiments.trained.panels import Axis, draw_by_length, make_draw
from experiments.trained.records import Line, scores
from meanfield.reproduce import Case, Experiment, Findings, Rows


def compute(case: Case) -> Findings:
    """Comparison of all networks, and their accuracy at each length."""
    comparison = findings(EARLIER_SORTING, case)
    conditions = EARLIER_SORTING.protocols[case.size].conditions
    (condition,) = conditions
    longest = conditions[condition]["length"]
    names = EARLIER_SORTING.candidates
    lines = {name: EARLIER_SORTING.arm(case, name, condition).lines for name in names}
    lengths = np.arange(1, 2 * longest + 1)
    accuracies = np.array([_accuracies(part, lengths) for part in lines.values()])
    by_length = xr.DataArray(
        accuracies, dims=("variant", "length"), coords={"length": lengths}
    )
    numbers = {
        "longest": longest,
        "accuracy_at_training_lengths": _mean_by_name(by_length[:, :longest]),
        "accuracy_at_longer_lengths": _mean_by_name(by_length[:, longest:]),
    }
    return Findings(
        spec=comparison.spec,
        numbers={**comparison.numbers, **numbers},
        data={"networks": comparison.data["networks"].assign(accuracy=by_length)},
    )


def _accuracies(lines: list[Line], lengths: np.ndarray) -> np.ndarray:
    """Accuracy in percent at each length of the sequence."""
    length = np.concatenate([scores(line, "length") for line in lines])
    correct = np.concatenate([scores(line, "correct") for line in lines])
    mean = lambda n: correct[length == n].mean() if np.any(length == n) else np.nan
    return 100 * np.array([mean(n) for n in lengths])


def _mean_by_name(accuracies: xr.DataArray) -> dict[str, float]:
    means = accuracies.values.mean(axis=1)
    return dict(zip(EARLIER_SORTING.candidates, means.tolist(), strict=True))


def length_table(numbers: Mapping[str, Any]) -> Rows:
    """The table of the comparison, and mean accuracies at short and long lengths."""
    rows = [
        (f"{name}: mean accuracy {label}", f"{accuracy:.1f}")
        for key, label in (
            ("accuracy_at_training_lengths", "at the training lengths"),
            ("accuracy_at_longer_lengths", "at longer lengths"),
        )
        for name, accuracy in numbers[key].items()
    ]
    return [*table(numbers), *rows]


EXPERIMENT = Experiment(
    source="tay2020, Table 1, of shorter sequences",
    claim=(
        "Sparse Sinkhorn attention sorts better than local attention within blocks, "
        "and than full softmax."
    ),
    caption=CAPTION,
    table=length_table,
    description=(
        "Left, the score of each network, with a bar at the median. Middle, paired "
        "differences: their mean and its interval; hollow points have no "
        "verdict. Right, the accuracy at each length; a network that sorts only the "
        "training lengths is correct half of the time."
    ),
    compute=compute,
    draw=make_draw(
        Axis(
            "Sorted sequences, encoder and decoder of two layers",
            "longest training length",
            "exact match, %",
            "difference in points",
        ),
        draw_by_length,
    ),
)
