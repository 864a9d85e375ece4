"""shahbazi2025, Table 1, for digits: effect of sharper sorts and of hard sorts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.trained.campaigns.earlier import EARLIER_PARITY, EARLIER_SORTS
from experiments.trained.campaigns.sorts import column_errors
from experiments.trained.comparison import CAPTION, findings, table
from experiments.trained.panels import Axis, make_draw
from meanfield.reproduce import Case, Experiment, Findings, Rows


def compute(case: Case) -> Findings:
    """Comparison of all networks, and column errors before sorts are sharpened."""
    findings_of_all = findings(EARLIER_SORTS, case)
    first = EARLIER_PARITY.protocols[case.size].recipe.epochs
    error = float(np.median(column_errors(EARLIER_SORTS, case)))
    numbers = {"initial_epochs": first, "initial_column_error": error}
    numbers = {**findings_of_all.numbers, **numbers}
    return dataclasses.replace(findings_of_all, numbers=numbers)


def sort_table(numbers: Mapping[str, Any]) -> Rows:
    """The table of the comparison, with epochs and errors of the initial networks."""
    return [
        *table(numbers),
        ("initial: epochs", str(numbers["initial_epochs"])),
        ("initial: error of column sums", f"{numbers['initial_column_error']:.1g}"),
    ]


EXPERIMENT = Experiment(
    source="shahbazi2025, Table 1, sorts, of digits in place of pets",
    claim=(
        "Networks with sliced attention improve if their sorts are sharpened after "
        "training, and improve further with hard sorts in their place."
    ),
    caption=CAPTION,
    table=sort_table,
    description=(
        "Left, the score of each network, with a bar at the median. Right, paired "
        "differences: their mean and its interval; hollow points have no "
        "verdict. Training continues from the initial networks at a hundredth of "
        "their learning rate: *longer* at the same temperature, *sharp* with a falling "
        "temperature; *hard* are the sharp networks evaluated with hard sorts."
    ),
    compute=compute,
    draw=make_draw(
        Axis(
            "Odd and even digits, sharper and hard sorts",
            "training images",
            "test accuracy, %",
            "difference in points",
        )
    ),
)
