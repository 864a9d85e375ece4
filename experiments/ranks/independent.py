r"""Ranks of limits where all entries of V are independent, as in the text.

Scores are constant on $\ker Q$ for every V, and $N^\top\Sigma^{-1}N$ is conserved there
(`flows.py`), so a limit has rank at least $\lceil d/2\rceil$. A limit is at rest, so
its moving part $YY^\top$ satisfies $VYG = YS$ with $S$ antisymmetric and $G =
(QY)^\top QY$ (under L2, $G = (QY)^\top(I + 2QYY^\top Q^\top)^{-1}QY$). If $Y$ has one
column or two, $S \neq 0$ requires an invariant plane of V with trace zero, which exists
for almost no V; and $S = 0$ implies $QY = 0$. So for $d \leq 5$ every limit has the
same rank as for V = I. But V is not positive definite, so many covariances have no
limit and grow without bound: in finite time under softmax, and at most exponentially
under L2, since $|L\Sigma| \leq |V||\Sigma|$.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.covariances.families import format_counts
from experiments.ranks.bars import (
    SCRIPT_STYLE,
    SOLVED_STYLE,
    draw_expected_rank,
    draw_fractions,
    draw_legend,
)
from experiments.ranks.counts import (
    CONFIDENCE,
    NAMES,
    SIZES,
    THRESHOLDS,
    compute_panels,
    concatenate,
    expected_ranks,
    join_with_and,
    mean_ranks,
    specification,
)
from experiments.ranks.flows import END_TIME, SIZE_BOUND
from experiments.ranks.samples import RANK_THRESHOLD, Panel, Recipe
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings, Rows

CONSTANT = 0.1  # an eigenvalue that follows t^p counts as constant if |p| is below this
VANISHING = -0.5  # an eigenvalue that follows t^p goes to zero if p is below this

CAPTION = (
    "Ranks of limits under {name}, {samples} samples each of d = {dimensions}, where "
    "all entries of V are independent and normal. Solved to t = {t:.0e}, "
    "{all[converged]} of {all[samples]} converge, {all[converged_to_expected_rank]} of "
    "them to the rank of the kernel of Q, half of d rounded up. Error bars are "
    "{confidence:.0%} intervals of Clopper and Pearson."
)


def independent(source: str, recipe: Recipe, description: str) -> Experiment:
    """The experiment of a figure of ranks, for V with independent entries."""
    return Experiment(
        source=source,
        claim=(
            "Where K = -Q and the entries of V are independent and normal, some "
            "covariances grow without bound; those that converge have limits with the "
            "rank of the kernel of Q."
        ),
        caption=CAPTION,
        table=count_table,
        description=description,
        compute=partial(findings_of, recipe),
        draw=draw,
    )


def findings_of(recipe: Recipe, case: Case) -> Findings:
    """Findings for exact flows and published steps of the same samples."""
    dims, n = SIZES[case.size]
    by_kind = compute_panels(recipe, ("iid",), case)
    panels = {d: panel for (_, d), panel in by_kind.items()}
    numbers = {
        "reading": case.reading,
        "name": NAMES[recipe.attention],
        "dimensions": join_with_and(dims),
        "samples": n,
        "t": END_TIME,
        "size_bound": SIZE_BOUND,
        "rank_threshold": RANK_THRESHOLD,
        "confidence": CONFIDENCE,
        "all": summarise([panels[d] for d in dims]),
        "by_dimension": {str(d): summarise([panels[d]]) for d in dims},
    }
    data = {"ranks": histograms(panels, dims)}
    return Findings(specification(recipe, ("iid",), case), numbers, data)


def is_converged(panel: Panel) -> np.ndarray:
    """Whether all eigenvalues of a sample are constant or go to zero at the end."""
    powers = panel.solutions.exponents
    nonzero = np.where(powers > VANISHING, powers, 0)
    is_finished = np.array(panel.solutions.endings) == "finished"
    return is_finished & np.all(np.abs(nonzero) < CONSTANT, axis=1)


def limit_ranks(panel: Panel) -> np.ndarray:
    """Ranks of the limits, as numbers of eigenvalues that do not go to zero."""
    return np.count_nonzero(panel.solutions.exponents > VANISHING, axis=1)


def summarise(panels: list[Panel]) -> dict[str, Any]:
    """Counts of converged, unbounded and kept samples over several panels."""
    join = lambda values_of: concatenate(panels, values_of)
    endings = [name for panel in panels for name in panel.solutions.endings]
    converged, unbounded = join(is_converged), np.array(endings) == "blow-up"
    in_finite_time = unbounded & np.isfinite(join(lambda p: p.solutions.t_star))
    expected, ranks = join(expected_ranks), join(limit_ranks)
    kept, diverged = join(lambda p: p.is_kept), join(lambda p: p.diverged)
    return {
        "samples": len(endings),
        "endings": dict(Counter(endings)),
        "endings_in_words": format_counts(endings),
        "converged": int(converged.sum()),
        "converged_to_expected_rank": int(np.sum(converged & (ranks == expected))),
        "blow_ups": int(in_finite_time.sum()),
        "exceed_size_bound": int(np.sum(unbounded & ~in_finite_time)),
        "undecided": int(np.sum(~converged & ~unbounded)),
        "script_endings": dict(Counter(join(lambda p: p.script_endings).tolist())),
        "diverged": int(diverged.sum()),
        "diverged_and_converged": int(np.sum(diverged & converged)),
        "excess_rank": int(join(lambda p: p.has_excess_rank).sum()),
        "kept": int(kept.sum()),
        "below": int(np.sum(kept & (join(lambda p: p.script_ranks) < expected))),
    }


def count_table(numbers: Mapping[str, Any]) -> Rows:
    """Table of counts for exact flows and published steps, by dimension."""
    by_dimension = numbers["by_dimension"]
    labels = {
        "samples": "samples",
        "converged": f"solved to t = {numbers['t']:.0e}: converge",
        "converged_to_expected_rank": "converge to the rank ⌈d/2⌉",
        "blow_ups": "blow up in finite time",
        "exceed_size_bound": f"exceed the size {numbers['size_bound']:.0e} otherwise",
        "undecided": "neither converge nor grow to this size",
        "diverged": "published Euler steps: divergent",
        "diverged_and_converged": "divergent, and the solution converges",
        "kept": "kept",
        "below": "kept with a rank below ⌈d/2⌉",
    }
    columns = [*by_dimension.values(), numbers["all"]]
    rows = [
        (label, *(str(column[key]) for column in columns))
        for key, label in labels.items()
    ]
    return [("", *(f"d = {d}" for d in by_dimension), "all"), *rows]


def histograms(panels: dict[int, Panel], dims: tuple[int, ...]) -> xr.Dataset:
    """Counts of samples by rank, counts of all others, and mean ranks by threshold."""
    n_ranks = max(dims) + 1
    count = lambda values: np.bincount(values, minlength=n_ranks)
    table = lambda values_of: [values_of(panels[d]) for d in dims]
    by_rank = {
        "solved": lambda p: count(limit_ranks(p)[is_converged(p)]),
        "kept": lambda p: count(p.script_ranks[p.is_kept]),
    }
    n_unbounded = lambda p: p.solutions.endings.count("blow-up")
    without_rank = {
        "unbounded": n_unbounded,
        "undecided": lambda p: len(p.V) - int(is_converged(p).sum()) - n_unbounded(p),
        "diverged": lambda p: int(p.diverged.sum()),
        "excess_rank": lambda p: int(p.has_excess_rank.sum()),
    }
    by_threshold = {
        "solved_by_threshold": _convergent_mean_ranks,
        "kept_by_threshold": lambda p: _mean_ranks(p.script_eigenvalues[p.is_kept]),
    }
    groups = by_rank, without_rank, by_threshold
    axes = (("d", "rank"), ("d",), ("d", "threshold"))
    return xr.Dataset(
        {
            name: (axis, table(values_of))
            for axis, group in zip(axes, groups, strict=True)
            for name, values_of in group.items()
        },
        coords={"d": list(dims), "rank": np.arange(n_ranks), "threshold": THRESHOLDS},
    )


def _convergent_mean_ranks(panel: Panel) -> np.ndarray:
    return _mean_ranks(panel.solutions.eigenvalues[is_converged(panel)])


def _mean_ranks(eigenvalues: np.ndarray) -> np.ndarray:
    """The mean rank at each threshold; NaN if there are no samples."""
    if len(eigenvalues) == 0:
        return np.full(len(THRESHOLDS), np.nan)
    return mean_ranks(eigenvalues)


@style()
def draw(findings: Findings) -> Figure:
    """Draws fractions of samples by rank (top) and mean ranks by threshold (bottom)."""
    data, n = findings.data["ranks"], findings.numbers["samples"]
    columns = data.sizes["d"]
    figure = Figure(figsize=(max(3.5 * columns, 5.4), 6.3), layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False)
    for column, d in enumerate(data["d"].values):
        _draw_counts(axes[0, column], data.sel(d=d), d, n)
        _draw_thresholds(axes[1, column], data.sel(d=d), d)
        axes[0, column].set_title(f"d = {d}")
        axes[1, column].set_title(f"d = {d}, by threshold")
    axes[0, 0].set_ylabel("fraction of samples")
    axes[1, 0].set_ylabel("mean rank")
    name = findings.numbers["name"]
    figure.suptitle(f"Ranks of limits, {name}: entries of V independent")
    draw_legend(figure, *axes[:, 0])
    return figure


def _draw_counts(axes: Axes, data: xr.Dataset, d: int, n: int) -> None:
    """Draws the fraction of samples with each rank, and of samples without a limit."""
    draw_expected_rank(axes, d)
    for name, others, style_, label in (
        ("solved", ("unbounded", "undecided"), SOLVED_STYLE, "solved to tolerance"),
        ("kept", ("diverged", "excess_rank"), SCRIPT_STYLE, "published rule"),
    ):
        rest = [int(data[other]) for other in others]
        draw_fractions(
            axes,
            np.array([*data[name].values[: d + 1], *rest]),
            n,
            style=style_,
            label=label,
        )
    labels = [*map(str, range(d + 1)), "grow", "other"]
    axes.set(xlabel="rank", xticks=range(d + 3), xticklabels=labels)
    axes.set(ylim=(0, 1.05), yticks=[0, 0.5, 1])


def _draw_thresholds(axes: Axes, data: xr.Dataset, d: int) -> None:
    axes.axhline(-(-d // 2), color="C6", linestyle=":")
    for name, style_, label in (
        ("solved_by_threshold", "-", "solved, convergent samples"),
        ("kept_by_threshold", "--", "published rule, kept samples"),
    ):
        axes.semilogx(THRESHOLDS, data[name], color="C3", linestyle=style_, label=label)
    if np.all(np.isnan([data["solved_by_threshold"], data["kept_by_threshold"]])):
        axes.text(0.5, 0.3, "none converges", transform=axes.transAxes, ha="center")
    axes.set(
        xlabel="threshold / largest eigenvalue", xlim=(THRESHOLDS[0], THRESHOLDS[-1])
    )
    axes.set(ylim=(0, d + 0.3), yticks=range(d + 1))
