"""Figures of ranks: histograms in both readings, and ranks against the cut."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.ranks.bars import (
    SCRIPT,
    SOLVED,
    WHISKERS,
    bound,
    errors,
    legend,
    shares,
)
from experiments.ranks.counts import findings_of
from experiments.ranks.samples import Recipe
from meanfield.plotting import style
from meanfield.reproduce import Experiment, Findings

DROPPED = "#8a8a8a"
LABELS = {"identity": r"$V = I$", "random": r"$V = W^\top W$"}

CAPTION = (
    "Ranks of limits under {name}, {samples} samples each of d = {dimensions}: the "
    "exact limit has rank half of d, rounded up, in {identity[at_bound]} of "
    "{identity[samples]} samples with V = I, and in {random[at_bound]} of "
    "{random[samples]} with V = WᵀW. Integrated to t = {last:.0e}, they end as "
    "{identity[endings_in_words]} and as {random[endings_in_words]}. The published "
    "Euler steps diverge in "
    "{identity[diverged]} and {random[diverged]} samples, of which "
    "{identity[diverged_and_real]} and {random[diverged_and_real]} are blow-ups. They "
    "drop {identity[dropped]} and {random[dropped]} samples, {identity[over]} and "
    "{random[over]} of them for a rank above that of the limit, and put "
    "{identity[below]} and {random[below]} below it: {identity[below_by_cut]} and "
    "{random[below_by_cut]} by the absolute cut at {absolute}, the others by the "
    "steps. Error bars are {confidence:.0%} intervals of Clopper and Pearson."
)


def figure_of(source: str, recipe: Recipe, iid: Experiment) -> Experiment:
    """A figure of ranks, and what it is with all entries of V independent."""
    return Experiment(
        source=source,
        claim=(
            "Where V is positive definite and K = -Q, covariances converge to limits "
            "of low rank: exactly that of the kernel of Q, for almost every draw."
        ),
        caption=CAPTION,
        description=(
            "Bars count the ranks of limits of random draws, by dimension and by V. "
            "The exact rank (blue) is always half the dimension, rounded up (dotted); "
            "ranks counted from published steps (orange) are often smaller. Curves "
            "show the mean rank against the cut below which eigenvalues do not count."
        ),
        compute=partial(findings_of, recipe),
        draw=draw,
        readings=("text", "code", "iid"),
        variants={"iid": iid},
    )


@style()
def draw(findings: Findings) -> Figure:
    """The reading that the findings name."""
    drawers = {"text": _draw_text, "code": _draw_code}
    return drawers[findings.numbers["reading"]](findings)


def _draw_text(findings: Findings) -> Figure:
    ranks, cuts = findings.data["ranks"], findings.data["cuts"]
    figure, axes = _panels(findings, 3)
    for column, d in enumerate(ranks["d"].values):
        for row, value in enumerate(LABELS):
            counts = ranks.sel(value=value, d=d)
            _shares(axes[row, column], counts, d)
            axes[row, column].set_title(f"d = {d}, {LABELS[value]}")
        _cuts(axes[2, column], cuts.sel(d=d), d)
        axes[2, column].set_title(f"d = {d}, by the cut")
    for place, label in enumerate(
        ["share of samples", "share of samples", "mean rank"]
    ):
        axes[place, 0].set_ylabel(label)
    legend(figure, axes[0, 0], axes[2, 0])
    return figure


def _draw_code(findings: Findings) -> Figure:
    ranks = findings.data["ranks"]
    figure, axes = _panels(findings, 2)
    for column, d in enumerate(ranks["d"].values):
        for row, value in enumerate(LABELS):
            _counts(axes[row, column], ranks.sel(value=value, d=d), d)
            axes[row, column].set_title(f"d = {d}, {LABELS[value]}")
    for row in axes:
        row[0].set_ylabel("samples")
    legend(figure, axes[-1, 0])
    return figure


def _panels(findings: Findings, rows: int) -> tuple[Figure, np.ndarray]:
    columns = findings.data["ranks"].sizes["d"]
    size = (max(3.5 * columns, 5.4), 2.7 * rows + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    reading = {"text": "solved to tolerance", "code": "published Euler steps"}
    name, how = findings.numbers["name"], reading[findings.numbers["reading"]]
    figure.suptitle(f"Ranks of limits, {name}: {how}")
    return figure, axes


def _shares(axes: Axes, panel: xr.Dataset, d: int) -> None:
    rank = np.arange(d + 1)
    bound(axes, d)
    for name, look, label in (
        ("exact", SOLVED, "exact limit, every sample"),
        ("kept", SCRIPT, "published rule, samples kept"),
    ):
        counts = panel[name].values[: d + 1]
        shares(axes, counts, int(counts.sum()), look=look, label=label)
    axes.set(xlabel="rank", xticks=rank, ylim=(0, 1.28), yticks=[0, 0.5, 1])
    note = str(panel["endings"].values).replace(", ", "\n")
    axes.text(0.98, 0.98, note, transform=axes.transAxes, ha="right", va="top", size=9)


def _counts(axes: Axes, counts: xr.Dataset, d: int) -> None:
    rank, kept = np.arange(d + 1), counts["kept"].values[: d + 1]
    bound(axes, d)
    axes.bar(
        *(rank, kept, 0.7),
        yerr=errors(kept, int(kept.sum())) * kept.sum(),
        color=SCRIPT.colour,
        error_kw=WHISKERS,
        label="kept",
    )
    places = np.arange(d + 2)
    dropped = np.append(counts["over"].values[: d + 1], counts["diverged"])
    visible = dropped > 0
    axes.bar(
        *(places[visible], dropped[visible], 0.7, np.append(kept, 0)[visible]),
        color="white",
        edgecolor=DROPPED,
        hatch="////",
        label="dropped: rank too high, or diverged",
    )
    labels = [*map(str, rank), "div."]
    n = int(counts["samples"])
    axes.set(xlabel="rank as counted", xticks=places, xticklabels=labels)
    axes.set(ylim=(0, 1.35 * n), yticks=np.linspace(0, n, 5), xlim=(-0.6, d + 1.6))
    note = str(counts["their_endings"].values).replace(", ", "\n")
    axes.text(0.98, 0.98, note, transform=axes.transAxes, ha="right", va="top", size=9)


def _cuts(axes: Axes, cuts: xr.Dataset, d: int) -> None:
    axes.axhline(-(-d // 2), color="C6", linestyle=":")
    for value, colour, what in (
        ("identity", "C2", "exact limit"),
        ("random", "C3", "solved to the last time"),
    ):
        means = cuts.sel(value=value)
        label = f"{LABELS[value]}, {what}"
        axes.semilogx(means["cut"], means["exact"], color=colour, label=label)
        axes.semilogx(
            *(means["cut"], means["code"]),
            color=colour,
            linestyle="--",
            label=f"{LABELS[value]}, published steps",
        )
    axes.set(xlabel="cut, of the largest eigenvalue", ylim=(0, d + 0.3))
    axes.set_yticks(range(d + 1))
