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
from scipy import stats

from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.panels import colours
from experiments.trained.records import Line
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings, Rows

QUANTILES = (5, 25, 50, 75, 95)  # in percent; the records have these quantiles
MIN_SEEDS = 3  # smallest number of seeds for a conclusion
LEVEL = 0.05
LOWEST = 0.03  # lower end of the axis of column sums


def compute(case: Case) -> Findings:
    """Quantiles of column sums, and the number of seeds whose sums approach one."""
    trained = PATCHES.networks(case)
    patch = list(trained.protocol.conditions)[-1]
    lines = {name: part for (name, p), part in trained.lines.items() if p == patch}
    quantiles = [
        [_values_of_head(line, "quantiles") for line in part] for part in lines.values()
    ]
    dims = ("variant", "seed", "epoch", "quantile")
    data = xr.Dataset(
        {"sums": (dims, np.array(quantiles))},
        {
            "variant": list(lines),
            "epoch": lines["softmax"][0]["epochs"],
            "quantile": list(QUANTILES),
        },
    )
    specs = {n: s.as_json() for (n, p), s in trained.specs.items() if p == patch}
    return Findings(
        spec={"seed": list(trained.protocol.seeds), **specs},
        numbers={
            "patch": patch,
            "seeds": len(trained.protocol.seeds),
            "epochs": trained.protocol.recipe.epochs,
            **{name: _summarise(part) for name, part in lines.items()},
        },
        data={"columns": data},
    )


def _summarise(lines: list[Line]) -> dict[str, Any]:
    """Medians over seeds of a variant's column sums, and a verdict on the claim."""
    rms = np.array([_values_of_head(line, "rms") for line in lines])
    near = np.array([_values_of_head(line, "fraction_near") for line in lines])
    n_decreasing = int(np.sum(rms[:, -1] < rms[:, 0]))
    return {
        "rms_start": float(np.median(rms[:, 0])),
        "rms_end": float(np.median(rms[:, -1])),
        "rms_max": float(np.median(rms.max(axis=1))),
        "fraction_near_start": float(np.median(near[:, 0])),
        "fraction_near_end": float(np.median(near[:, -1])),
        "n_decreasing": n_decreasing,
        "conclusion": _conclusion(n_decreasing, len(lines)),
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
    by_name = colours(data["variant"].values)
    for axes, (name, colour) in zip(panels, by_name.items(), strict=True):
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
                epochs, *np.maximum(ends, LOWEST), color=colour, alpha=alpha
            )
        axes.plot(epochs, middle, color=colour)
        axes.axhline(1, color="0.5", linewidth=1)
        axes.set_yscale("log")
        axes.set_title(name)
        axes.set_xlabel("epoch")
    panels[0].set_ylabel(f"column sums, patch {findings.numbers['patch']}")
    return figure


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of column sums before and after training, by attention."""
    names = [name for name in PATCHES.variants if name in numbers]
    labels = {
        "rms_start": ("distance from one before training, rms", ".1g"),
        "rms_end": ("after training", ".2f"),
        "rms_max": ("largest over epochs", ".2f"),
        "n_decreasing": ("networks in which it decreases", "d"),
        "fraction_near_start": ("within a factor of two of one, before", ".0%"),
        "fraction_near_end": ("after training", ".0%"),
        "conclusion": ("conclusion", "s"),
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
        "from one goes from {softmax[rms_start]:.2f} to {softmax[rms_end]:.2f}, and "
        "decreases in {softmax[n_decreasing]} networks ({softmax[conclusion]})."
    ),
    table=table,
    description=(
        "Median of the column sums by epoch, with bands that contain half and nine "
        "tenths of them. The grey line at one is the column sum of a transport plan."
    ),
    compute=compute,
    draw=draw,
)
