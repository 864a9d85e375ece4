r"""Ranks of limits where all entries of V are independent, as the text draws them.

Whatever V is, no score sees $\ker Q$, and $N^\top\Sigma^{-1}N$ is conserved there
(`flows.py`): a limit has rank $\lceil d/2\rceil$ at least. It is at rest, so that its
part $YY^\top$ that moves has $VYG = YS$ with $S$ antisymmetric and $G = (QY)^\top QY$
(L2: with $(I + 2QYY^\top Q^\top)^{-1}$ between). Of one column or two, $S \neq 0$ asks
for a plane that V maps to itself with trace zero, which almost no V has; and $S = 0$
leaves $QY = 0$. So for $d \leq 5$ limits have the rank of V = I, where there are any:
since V is not positive, many covariances grow without bound, under softmax in finite
time, and under L2 exponentially at most, since $|L\Sigma| \leq |V||\Sigma|$.
"""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.covariances.families import in_words
from experiments.ranks.bars import SCRIPT, SOLVED, bound, legend, shares
from experiments.ranks.counts import (
    CONFIDENCE,
    CUTS,
    NAMES,
    SIZES,
    in_a_row,
    mean_ranks,
    panels_of,
    specification,
)
from experiments.ranks.flows import LAST, OUTGROWN
from experiments.ranks.samples import ABSOLUTE, Panel, Recipe
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings

AT_REST = 0.1  # powers of t that are none
VANISHING = -0.5  # powers of t of eigenvalues that vanish: like 1 / t, or 1 / t²

CAPTION = (
    "Ranks of limits under {name}, {samples} samples each of d = {dimensions}, all "
    "entries of V independent and normal. Solved to t = {last:.0e}, {all[settled]} of "
    "{all[samples]} converge, "
    "{all[settled_at_bound]} of them to the rank of the kernel of Q, half of d rounded "
    "up; {all[blow_ups]} blow up in finite time, {all[outgrown]} more exceed the size "
    "{outgrown:.0e}, and {all[open]} do neither. The published Euler steps diverge in "
    "{all[diverged]} samples, {all[diverged_and_settled]} of which converge when "
    "solved, and put {all[below]} of the {all[kept]} samples they keep below that "
    "rank; error bars are {confidence:.0%} intervals of Clopper and Pearson."
)


def independent(source: str, recipe: Recipe, seen: str) -> Experiment:
    """A figure of ranks with all entries of V independent."""
    return Experiment(
        source=source,
        claim=(
            "Where K = -Q and the entries of V are independent and normal, some "
            "covariances grow without bound; those that converge have limits with the "
            "rank of the kernel of Q."
        ),
        caption=CAPTION,
        description=seen,
        compute=partial(findings_of, recipe),
        draw=draw,
    )


def findings_of(recipe: Recipe, case: Case) -> Findings:
    """Both ways to count the ranks of the same draws."""
    dims, n = SIZES[case.size]
    panels = {d: part for (_, d), part in panels_of(recipe, ("iid",), case).items()}
    numbers = {
        "reading": case.reading,
        "name": NAMES[recipe.attention],
        "dimensions": in_a_row(dims),
        "samples": n,
        "last": LAST,
        "outgrown": OUTGROWN,
        "absolute": ABSOLUTE,
        "confidence": CONFIDENCE,
        "all": total([panels[d] for d in dims]),
        "by_dimension": {str(d): total([panels[d]]) for d in dims},
    }
    data = {"ranks": tables(panels, dims)}
    return Findings(specification(recipe, ("iid",), case), numbers, data)


def settled(part: Panel) -> np.ndarray:
    """Whether samples converge: eigenvalues stay, or vanish like powers of time."""
    powers = part.exact.exponents
    kept = powers > VANISHING
    finished = np.array(part.exact.endings) == "finished"
    return finished & np.all(np.abs(np.where(kept, powers, 0)) < AT_REST, axis=1)


def ranks(part: Panel) -> np.ndarray:
    """How many eigenvalues do not vanish."""
    return np.count_nonzero(part.exact.exponents > VANISHING, axis=1)


def total(panels: list[Panel]) -> dict[str, Any]:
    """What some panels count together."""
    join = lambda of: np.concatenate([of(part) for part in panels])
    endings = [name for part in panels for name in part.exact.endings]
    calm, over = join(settled), np.array(endings) == "blow-up"
    blown = over & np.isfinite(join(lambda p: p.exact.t_star))
    bound = join(lambda p: np.full(len(p.V), p.bound))
    kept, diverged = join(lambda p: p.kept), join(lambda p: p.diverged)
    return {
        "samples": len(endings),
        "endings": dict(Counter(endings)),
        "endings_in_words": in_words(endings),
        "settled": int(calm.sum()),
        "settled_at_bound": int(np.sum(calm & (join(ranks) == bound))),
        "blow_ups": int(blown.sum()),
        "outgrown": int(np.sum(over & ~blown)),
        "open": int(np.sum(~calm & ~over)),
        "their_endings": dict(Counter(join(lambda p: p.endings).tolist())),
        "diverged": int(diverged.sum()),
        "diverged_and_settled": int(np.sum(diverged & calm)),
        "over": int(join(lambda p: p.over).sum()),
        "kept": int(kept.sum()),
        "below": int(np.sum(kept & (join(lambda p: p.counted) < bound))),
    }


def tables(panels: dict[int, Panel], dims: tuple[int, ...]) -> xr.Dataset:
    """Samples by rank and by what else becomes of them, and mean ranks by the cut."""
    top = max(dims) + 1
    count = lambda values: np.bincount(values, minlength=top)
    table = lambda of: [of(panels[d]) for d in dims]
    solutions = {
        "solved": lambda p: count(ranks(p)[settled(p)]),
        "kept": lambda p: count(p.counted[p.kept]),
    }
    others = {
        "grow": lambda p: p.exact.endings.count("blow-up"),
        "open": lambda p: len(p.V) - int(settled(p).sum()) - others["grow"](p),
        "diverged": lambda p: int(p.diverged.sum()),
        "over": lambda p: int(p.over.sum()),
    }
    curves = {
        "solved_by_cut": lambda p: _by_cut(p.exact.eigenvalues[settled(p)]),
        "kept_by_cut": lambda p: _by_cut(p.theirs[p.kept]),
    }
    axes = (("d", "rank"), ("d",), ("d", "cut"))
    return xr.Dataset(
        {
            name: (axis, table(of))
            for axis, group in zip(axes, (solutions, others, curves), strict=True)
            for name, of in group.items()
        },
        coords={"d": list(dims), "rank": np.arange(top), "cut": CUTS},
    )


def _by_cut(values: np.ndarray) -> np.ndarray:
    """Mean ranks; NaN where there is none to take the mean of."""
    return mean_ranks(values) if len(values) else np.full(len(CUTS), np.nan)


@style()
def draw(findings: Findings) -> Figure:
    """What becomes of samples, above; mean ranks against the cut, below."""
    data, n = findings.data["ranks"], findings.numbers["samples"]
    columns = data.sizes["d"]
    figure = Figure(figsize=(max(3.5 * columns, 5.4), 6.3), layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False)
    for column, d in enumerate(data["d"].values):
        _bars(axes[0, column], data.sel(d=d), d, n)
        _cuts(axes[1, column], data.sel(d=d), d)
        axes[0, column].set_title(f"d = {d}")
        axes[1, column].set_title(f"d = {d}, by the cut")
    axes[0, 0].set_ylabel("share of samples")
    axes[1, 0].set_ylabel("mean rank")
    name = findings.numbers["name"]
    figure.suptitle(f"Ranks of limits, {name}: entries of V independent")
    legend(figure, *axes[:, 0])
    return figure


def _bars(axes: Axes, data: xr.Dataset, d: int, n: int) -> None:
    """Shares of all samples, by rank; then what has none."""
    bound(axes, d)
    for name, others, look, label in (
        ("solved", ("grow", "open"), SOLVED, "solved to tolerance"),
        ("kept", ("diverged", "over"), SCRIPT, "published rule"),
    ):
        rest = [int(data[other]) for other in others]
        shares(
            axes,
            np.array([*data[name].values[: d + 1], *rest]),
            n,
            look=look,
            label=label,
        )
    labels = [*map(str, range(d + 1)), "grow", "else"]
    axes.set(xlabel="rank", xticks=range(d + 3), xticklabels=labels)
    axes.set(ylim=(0, 1.05), yticks=[0, 0.5, 1])


def _cuts(axes: Axes, data: xr.Dataset, d: int) -> None:
    axes.axhline(-(-d // 2), color="C6", linestyle=":")
    for name, style_, label in (
        ("solved_by_cut", "-", "solved, those that converge"),
        ("kept_by_cut", "--", "published rule, those kept"),
    ):
        axes.semilogx(CUTS, data[name], color="C3", linestyle=style_, label=label)
    if np.all(np.isnan([data["solved_by_cut"], data["kept_by_cut"]])):
        axes.text(0.5, 0.3, "none converges", transform=axes.transAxes, ha="center")
    axes.set(xlabel="cut, of the largest eigenvalue", xlim=(CUTS[0], CUTS[-1]))
    axes.set(ylim=(0, d + 0.3), yticks=range(d + 1))
