"""Figures of ranks, from exact flows and the script: histograms and mean ranks."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.ranks.bars import (
    ERROR_BAR_STYLE,
    SCRIPT_STYLE,
    SOLVED_STYLE,
    draw_expected_rank,
    draw_fractions,
    draw_legend,
    error_bars,
)
from experiments.ranks.counts import count_table, findings_of
from experiments.ranks.samples import Recipe
from meanfield.plotting import style
from meanfield.reproduce import Experiment, Findings

DROPPED = "#8a8a8a"
LABELS = {"identity": r"$V = I$", "random": r"$V = W^\top W$"}

CAPTION = (
    "Ranks of limits under {name}, {samples} samples each of d = {dimensions}, with V "
    "= I and with V = WᵀW. The exact limit has half of d, rounded up, as its rank in "
    "{identity[with_expected_rank]} and {random[with_expected_rank]} samples; the "
    "published Euler steps keep {identity[kept]} and {random[kept]}, and find a lower "
    "rank in {identity[below]} and {random[below]} of these. Error bars are "
    "{confidence:.0%} intervals of Clopper and Pearson."
)


def rank_figure(source: str, recipe: Recipe, iid: Experiment) -> Experiment:
    """The experiment of a figure of ranks; `iid` is its variant with independent V."""
    return Experiment(
        source=source,
        claim=(
            "Where V is positive definite and K = -Q, covariances converge to limits "
            "of low rank: exactly that of the kernel of Q, for almost every draw."
        ),
        caption=CAPTION,
        table=count_table,
        description=(
            "Bars count the ranks of limits of random draws, by dimension and by V. "
            "The exact rank (blue) is always half the dimension, rounded up (dotted); "
            "ranks counted from published steps (orange) are often smaller. Curves "
            "show the mean rank by the threshold above which eigenvalues count."
        ),
        compute=partial(findings_of, recipe),
        draw=draw,
        readings=("text", "code", "iid"),
        variants={"iid": iid},
    )


@style()
def draw(findings: Findings) -> Figure:
    """Draws exact ranks or ranks of the script, depending on the findings."""
    drawers = {"text": _draw_text, "code": _draw_code}
    return drawers[findings.numbers["reading"]](findings)


def _draw_text(findings: Findings) -> Figure:
    ranks, thresholds = findings.data["ranks"], findings.data["thresholds"]
    figure, axes = _panels(findings, 3)
    for column, d in enumerate(ranks["d"].values):
        for row, value in enumerate(LABELS):
            counts = ranks.sel(value=value, d=d)
            _draw_fractions(axes[row, column], counts, d)
            axes[row, column].set_title(f"d = {d}, {LABELS[value]}")
        _draw_thresholds(axes[2, column], thresholds.sel(d=d), d)
        axes[2, column].set_title(f"d = {d}, by threshold")
    for row, label in enumerate(
        ["fraction of samples", "fraction of samples", "mean rank"]
    ):
        axes[row, 0].set_ylabel(label)
    draw_legend(figure, axes[0, 0], axes[2, 0])
    return figure


def _draw_code(findings: Findings) -> Figure:
    ranks = findings.data["ranks"]
    figure, axes = _panels(findings, 2)
    for column, d in enumerate(ranks["d"].values):
        for row, value in enumerate(LABELS):
            _draw_counts(axes[row, column], ranks.sel(value=value, d=d), d)
            axes[row, column].set_title(f"d = {d}, {LABELS[value]}")
    for row in axes:
        row[0].set_ylabel("samples")
    draw_legend(figure, axes[-1, 0])
    return figure


def _panels(findings: Findings, rows: int) -> tuple[Figure, np.ndarray]:
    columns = findings.data["ranks"].sizes["d"]
    size = (max(3.5 * columns, 5.4), 2.7 * rows + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    reading = {"text": "solved to tolerance", "code": "published Euler steps"}
    name, method = findings.numbers["name"], reading[findings.numbers["reading"]]
    figure.suptitle(f"Ranks of limits, {name}: {method}")
    return figure, axes


def _draw_fractions(axes: Axes, panel: xr.Dataset, d: int) -> None:
    rank = np.arange(d + 1)
    draw_expected_rank(axes, d)
    for name, style_, label in (
        ("exact", SOLVED_STYLE, "exact limit, all samples"),
        ("kept", SCRIPT_STYLE, "published rule, kept samples"),
    ):
        counts = panel[name].values[: d + 1]
        draw_fractions(axes, counts, int(counts.sum()), style=style_, label=label)
    axes.set(xlabel="rank", xticks=rank, ylim=(0, 1.28), yticks=[0, 0.5, 1])
    note = str(panel["endings"].values).replace(", ", "\n")
    axes.text(0.98, 0.98, note, transform=axes.transAxes, ha="right", va="top", size=9)


def _draw_counts(axes: Axes, counts: xr.Dataset, d: int) -> None:
    rank, kept = np.arange(d + 1), counts["kept"].values[: d + 1]
    draw_expected_rank(axes, d)
    axes.bar(
        *(rank, kept, 0.7),
        yerr=error_bars(kept, int(kept.sum())) * kept.sum(),
        color=SCRIPT_STYLE.colour,
        error_kw=ERROR_BAR_STYLE,
        label="kept",
    )
    positions = np.arange(d + 2)
    dropped = np.append(counts["excess_rank"].values[: d + 1], counts["diverged"])
    visible = dropped > 0
    axes.bar(
        *(positions[visible], dropped[visible], 0.7, np.append(kept, 0)[visible]),
        color="white",
        edgecolor=DROPPED,
        hatch="////",
        label="dropped: rank too high, or diverged",
    )
    labels = [*map(str, rank), "div."]
    n = int(counts["samples"])
    axes.set(xlabel="rank by the published rule", xticks=positions, xticklabels=labels)
    axes.set(ylim=(0, 1.35 * n), yticks=np.linspace(0, n, 5), xlim=(-0.6, d + 1.6))
    note = str(counts["script_endings"].values).replace(", ", "\n")
    axes.text(0.98, 0.98, note, transform=axes.transAxes, ha="right", va="top", size=9)


def _draw_thresholds(axes: Axes, thresholds: xr.Dataset, d: int) -> None:
    axes.axhline(-(-d // 2), color="C6", linestyle=":")
    for value, colour, kind in (
        ("identity", "C2", "exact limit"),
        ("random", "C3", "solved to the end time"),
    ):
        means = thresholds.sel(value=value)
        label = f"{LABELS[value]}, {kind}"
        axes.semilogx(means["threshold"], means["exact"], color=colour, label=label)
        axes.semilogx(
            *(means["threshold"], means["code"]),
            color=colour,
            linestyle="--",
            label=f"{LABELS[value]}, published steps",
        )
    axes.set(xlabel="threshold / largest eigenvalue", ylim=(0, d + 0.3))
    axes.set_yticks(range(d + 1))
