"""sander2022, Figure 2, for networks trained here: column sums by epoch.

In the paper the column sums of softmax matrices approach one during training. Here the
networks of `sander2022_fig6.py` with the smallest patches are evaluated at 50 test
digits: before the first epoch, after each of the first ten, and after every tenth. The
class token is one of the tokens.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from scipy import stats

from experiments.attention_styles import attention_styles
from experiments.trained.campaigns.earlier import EARLIER_PATCHES
from experiments.trained.records import Line
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings, Rows

QUANTILES = (5, 25, 50, 75, 95)  # in percent; the records have these quantiles
MIN_SEEDS = 3  # smallest number of seeds for a conclusion
LEVEL = 0.05
LOWEST = 0.03  # lower end of the axis of column sums


def compute(case: Case) -> Findings:
    """Quantiles of column sums, and the number of seeds whose sums approach one."""
    protocol = EARLIER_PATCHES.protocols[case.size]
    patch = list(protocol.conditions)[-1]
    arms = {
        name: EARLIER_PATCHES.arm(case, name, patch)
        for name in EARLIER_PATCHES.candidates
    }
    lines = {name: arm.lines for name, arm in arms.items()}
    quantiles = [
        [_values_of_head(line, "quantiles") for line in part] for part in lines.values()
    ]
    data = xr.Dataset(
        {"sums": (("variant", "seed", "epoch", "quantile"), np.array(quantiles))},
        {
            "variant": list(lines),
            "epoch": lines["softmax"][0]["epochs"],
            "quantile": list(QUANTILES),
        },
    )
    specs = {name: arm.spec.as_json() for name, arm in arms.items()}
    return Findings(
        spec={"seed": list(protocol.seeds), **specs},
        numbers={
            "patch": patch,
            "seeds": len(protocol.seeds),
            "epochs": protocol.recipe.epochs,
            **{name: _summarise(part) for name, part in lines.items()},
        },
        data={"columns": data},
    )


def _summarise(lines: list[Line]) -> dict[str, Any]:
    """Medians over seeds of a variant's column sums, and verdicts on the claim.

    The first verdict compares the last epoch with the state before training, the second
    with the state after the first epoch, as in the paper, whose first curve is later.
    """
    rms = np.array([_values_of_head(line, "rms") for line in lines])
    near = np.array([_values_of_head(line, "fraction_near") for line in lines])
    first, second = (int(np.sum(rms[:, -1] < rms[:, epoch])) for epoch in (0, 1))
    return {
        "rms_start": float(np.median(rms[:, 0])),
        "rms_end": float(np.median(rms[:, -1])),
        "rms_max": float(np.median(rms.max(axis=1))),
        "fraction_near_start": float(np.median(near[:, 0])),
        "fraction_near_end": float(np.median(near[:, -1])),
        "rms_first": float(np.median(rms[:, 1])),
        "n_decreasing": first,
        "conclusion": _conclusion(first, len(lines)),
        "n_decreasing_after_first": second,
        "conclusion_after_first": _conclusion(second, len(lines)),
    }


def _conclusion(n_decreasing: int, n: int) -> str:
    """Conclusion from a sign test on whether the distance decreases for most seeds."""
    if n < MIN_SEEDS:
        return "not enough seeds"
    if stats.binomtest(n_decreasing, n).pvalue >= LEVEL:
        return "undecided"
    return "reproduced" if n_decreasing > n / 2 else "contradicted"


def _values_of_head(line: Line, name: str) -> np.ndarray:
    """Recorded values of the only head of a network, by epoch."""
    return np.array(line[name])[:, 0, 0]


@style()
def draw(findings: Findings) -> Figure:
    """Draws the quantiles of column sums by epoch, a panel for each variant."""
    data = findings.data["columns"]
    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    panels = figure.subplots(1, len(data["variant"]), sharey=True)
    styles = attention_styles(map(str, data["variant"].values))
    for axes, (name, look) in zip(panels, styles.items(), strict=True):
        low, lower, middle, upper, high = (
            data["sums"]
            .sel(variant=name)
            .median("seed")
            .transpose("quantile", ...)
            .values
        )
        epochs = data["epoch"].values
        for ends, alpha in (((low, high), 0.15), ((lower, upper), 0.35)):
            axes.fill_between(
                epochs, *np.maximum(ends, LOWEST), color=look.colour, alpha=alpha
            )
        axes.plot(epochs, middle, color=look.colour)
        axes.axhline(1, color="0.5", linewidth=1)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title(look.label)
        axes.set_xlabel("epoch")
    panels[0].set_ylabel("column sums")
    figure.suptitle(f"Digits in patches of side {findings.numbers['patch']}")
    return figure


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of column sums before and after training, by attention."""
    names = [name for name in EARLIER_PATCHES.candidates if name in numbers]
    labels = {
        "rms_start": ("distance from one before training, rms", ".1g"),
        "rms_first": ("after one epoch", ".2f"),
        "rms_end": ("after training", ".2f"),
        "rms_max": ("largest over epochs", ".2f"),
        "n_decreasing": ("networks in which it decreases, from before training", "d"),
        "conclusion": ("conclusion, from before training", "s"),
        "n_decreasing_after_first": (
            "networks in which it decreases, from epoch 1",
            "d",
        ),
        "conclusion_after_first": ("conclusion, from the first epoch", "s"),
        "fraction_near_start": ("within a factor of two of one, before", ".0%"),
        "fraction_near_end": ("after training", ".0%"),
    }
    rows = [
        (label, *(format(numbers[name][key], form) for name in names))
        for key, (label, form) in labels.items()
    ]
    return [("column sums", *names), *rows]


EXPERIMENT = Experiment(
    source="sander2022, Figure 2",
    claim="During training the column sums of softmax attention matrices approach one.",
    caption=(
        "Column sums of {seeds} networks on patches of {patch} pixels over {epochs} "
        "epochs, medians over seeds. Under softmax their root mean square distance "
        "from one goes from {softmax[rms_start]:.2f} before training and "
        "{softmax[rms_first]:.2f} after one epoch to {softmax[rms_end]:.2f}: it "
        "decreases in {softmax[n_decreasing]} networks ({softmax[conclusion]}) from "
        "before training, and in {softmax[n_decreasing_after_first]} "
        "({softmax[conclusion_after_first]}) from the first epoch, where the paper "
        "begins."
    ),
    table=table,
    description=(
        "Median of the column sums by epoch, with bands that contain half and nine "
        "tenths of them. The grey line at one is the column sum of a transport plan."
    ),
    compute=compute,
    draw=draw,
)
