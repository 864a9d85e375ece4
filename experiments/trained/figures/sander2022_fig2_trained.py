"""sander2022, Figure 2, for networks trained here: column sums over epochs.

In the paper the column sums of softmax matrices approach one during training. Here they
are those of the networks of `sander2022_fig6.py` with the smallest patches, at 50 test
digits: before the first epoch, after each of the first ten, and after every tenth. The
class token is one of the tokens.
"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from experiments.trained.campaigns.patches import PATCHES
from experiments.trained.panels import colours
from experiments.trained.records import Line
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings

QUANTILES = (5, 25, 50, 75, 95)  # percent, as records have them
FEW = 3  # smallest number of seeds for a verdict
LEVEL = 0.05
LOWEST = 0.03  # of the drawing


def compute(case: Case) -> Findings:
    """Quantiles of column sums, and the number of seeds that come closer to one."""
    trained = PATCHES.networks(case)
    patch = list(trained.protocol.conditions)[-1]
    lines = {name: own for (name, p), own in trained.lines.items() if p == patch}
    data = xr.Dataset(
        {
            "sums": (
                ("variant", "seed", "epoch", "quantile"),
                np.array(
                    [[_of_head(n, "quantiles") for n in own] for own in lines.values()]
                ),
            ),
        },
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
            **{name: _moved(own) for name, own in lines.items()},
        },
        data={"columns": data},
    )


def _moved(lines: list[Line]) -> dict[str, Any]:
    """Column sums of a variant before and after training, medians, and a verdict."""
    rms = np.array([_of_head(line, "rms") for line in lines])
    near = np.array([_of_head(line, "fraction_near") for line in lines])
    falls = int(np.sum(rms[:, -1] < rms[:, 0]))
    return {
        "rms_start": float(np.median(rms[:, 0])),
        "rms_end": float(np.median(rms[:, -1])),
        "rms_most": float(np.median(rms.max(axis=1))),
        "fraction_near_start": float(np.median(near[:, 0])),
        "fraction_near_end": float(np.median(near[:, -1])),
        "falls": falls,
        "conclusion": _word(falls, len(lines)),
    }


def _word(falls: int, n: int) -> str:
    """Verdict of a sign test on whether more seeds fall than rise."""
    if n < FEW:
        return "not enough seeds"
    if stats.binomtest(falls, n).pvalue >= LEVEL:
        return "undecided"
    return "reproduced" if falls > n / 2 else "contradicted"


def _of_head(line: Line, name: str) -> np.ndarray:
    """Recorded values of the single head, by epoch."""
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


EXPERIMENT = Experiment(
    source="sander2022, Figure 2",
    claim="During training the column sums of softmax attention matrices approach one.",
    caption=(
        "Column sums of {seeds} networks on patches of {patch} pixels over {epochs} "
        "epochs, medians over seeds. Under softmax their root mean square distance "
        "from one goes from {softmax[rms_start]:.2f} to {softmax[rms_end]:.2f}, with a "
        "maximum of {softmax[rms_most]:.2f}, and falls in {softmax[falls]} networks "
        "({softmax[conclusion]}); {softmax[fraction_near_start]:.0%} of the sums are "
        "within a factor of two of one before training, and "
        "{softmax[fraction_near_end]:.0%} after it. After five half-steps of Sinkhorn "
        "the distance goes from {Sinkhorn[rms_start]:.1g} to {Sinkhorn[rms_end]:.2f}."
    ),
    description=(
        "Median of the column sums by epoch, with bands that contain half and nine "
        "tenths of them. The grey line at one is the column sum of a transport plan."
    ),
    compute=compute,
    draw=draw,
)
