"""Ranks of limits: of the exact ones, and those that the published rule counts."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import binomtest

from experiments.covariances.families import in_words, spread
from experiments.ranks.flows import LAST, RTOL, SEED, Solved
from experiments.ranks.samples import ABSOLUTE, BOUND, Panel, Recipe, panel
from meanfield.reproduce import Case, Findings
from meanfield.workers import threads

SIZES = {"paper": ((3, 4, 5), 100), "quick": ((3,), 20)}
CONFIDENCE = 0.95  # of the intervals
CUTS = np.geomspace(1e-14, 1e-1, 131)
VALUES = ("identity", "random")
NAMES = {"softmax": "softmax", "l2": "L2"}
LAWS = {
    "identity": "I",
    "random": "W^T W, W d x d i.i.d. N(0, 1)",
    "iid": "W, d x d i.i.d. N(0, 1)",
}


def findings_of(recipe: Recipe, case: Case) -> Findings:
    """Both readings of the same draws; the case says which is drawn."""
    dims, n = SIZES[case.size]
    panels = panels_of(recipe, VALUES, case)
    rows = {
        value: {
            **total([panels[value, d] for d in dims]),
            "by_dimension": {str(d): total([panels[value, d]]) for d in dims},
        }
        for value in VALUES
    }
    numbers = {
        "reading": case.reading,
        "name": NAMES[recipe.attention],
        "dimensions": in_a_row(dims),
        "samples": n,
        "last": LAST,
        "absolute": ABSOLUTE,
        "confidence": CONFIDENCE,
        **rows,
    }
    data = {"ranks": histograms(panels, dims), "cuts": curves(panels, dims)}
    return Findings(specification(recipe, VALUES, case), numbers, data)


def in_a_row(dims: tuple[int, ...]) -> str:
    """Dimensions in words: `3, 4 and 5`."""
    return " and ".join(", ".join(map(str, dims)).rsplit(", ", 1))


def panels_of(
    recipe: Recipe, values: tuple[str, ...], case: Case
) -> dict[tuple[str, int], Panel]:
    """The panels of a figure, by what V is and by dimension."""
    dims, n = SIZES[case.size]
    places = [(value, d) for value in reversed(values) for d in reversed(dims)]
    with threads() as cores:  # a panel steps on one core
        results = cores.map(lambda at: panel(recipe, at[0], at[1], n), places)
        return dict(zip(places, results, strict=True))


def specification(
    recipe: Recipe, values: tuple[str, ...], case: Case
) -> dict[str, Any]:
    """All that a figure follows from."""
    dims, n = SIZES[case.size]
    return {
        "seed": SEED,
        "attention": recipe.attention,
        "dimensions": list(dims),
        "samples": n,
        "laws": {
            "Q": "floor(d/2) x d, i.i.d. N(0, 1)",
            "K": "-Q",
            "covariance": "G G^T, G d x d i.i.d. N(0, 1)",
            "V": {value: LAWS[value] for value in values},
        },
        "text": {"epsilon": 1.0, "t": LAST, "rtol": RTOL},
        "code": {
            value: {str(d): recipe.rule(value, d)._asdict() for d in dims}
            for value in values
        },
    }


def total(panels: list[Panel]) -> dict[str, Any]:
    """What some panels count together."""
    return {**solutions(panels), **steps(panels)}


def solutions(panels: list[Panel]) -> dict[str, Any]:
    """What the solved flows of some panels show."""
    join = lambda of: np.concatenate([of(part) for part in panels])
    bound = join(lambda p: np.full(len(p.V), p.bound))
    ours = np.array([name for p in panels for name in p.exact.endings])
    diverged = join(lambda p: p.diverged)
    ranks, traces = join(lambda p: p.ranks), join(lambda p: largest_traces(p.exact))
    implied = join(lambda p: np.count_nonzero(p.exact.exponents > -0.5, axis=1))
    return {
        "samples": len(bound),
        "at_bound": int(np.sum(ranks == bound)),
        "implied_at_bound": int(np.sum(implied == bound)),
        "endings": dict(Counter(ours.tolist())),
        "endings_in_words": in_words(ours.tolist()),
        "blow_ups": int(np.sum(ours == "blow-up")),
        "largest_trace": float(traces.max()),
        "largest_trace_of_diverged": spread(traces[diverged]),
        "rise": max(rise(p) for p in panels),
        "gap_to_limit": max(gap(p) for p in panels),
        "decay": quartiles(join(_decaying)),
        "diverged_and_real": int(np.sum(diverged & (ours == "blow-up"))),
        "diverged_and_passes": int(np.sum(diverged & (traces > BOUND))),
    }


def steps(panels: list[Panel]) -> dict[str, Any]:
    """What the script counts in some panels, and why some counts are low."""
    join = lambda of: np.concatenate([of(part) for part in panels])
    bound = join(lambda p: np.full(len(p.V), p.bound))
    over, kept = join(lambda p: p.over), join(lambda p: p.kept)
    visible = join(lambda p: np.count_nonzero(p.eigenvalues > ABSOLUTE, axis=1))
    # No eigenvalue of a limit is below that of what never moves.
    sure = join(lambda p: np.count_nonzero(p.still > ABSOLUTE, axis=1))
    below = kept & (join(lambda p: p.counted) < bound)
    return {
        "diverged": int(join(lambda p: p.diverged).sum()),
        "their_endings": dict(Counter(join(lambda p: p.endings).tolist())),
        "over": int(over.sum()),
        "dropped": int(np.sum(~kept)),
        "kept": int(kept.sum()),
        "below": int(below.sum()),
        "below_by_cut": int(np.sum(below & (visible < bound))),
        "below_by_steps": int(np.sum(below & (visible == bound))),
        "below_by_steps_surely": int(np.sum(below & (sure == bound))),
    }


def _decaying(part: Panel) -> np.ndarray:
    """Exponents of the eigenvalues that vanish in the limit."""
    return part.exact.exponents[:, part.bound :].ravel()


def quartiles(values: np.ndarray) -> dict[str, float]:
    """Five numbers of a distribution."""
    at = {"min": 0, "lower": 25, "median": 50, "upper": 75, "max": 100}
    return {name: float(np.percentile(values, q)) for name, q in at.items()}


def largest_traces(exact: Solved) -> np.ndarray:
    """The largest trace on the way, over the frames."""
    return np.max(np.sum(exact.factors**2, axis=(2, 3)), axis=1)


def rise(part: Panel) -> float:
    r"""The largest rise of $\mathrm{tr}\,V^{-1}\Sigma$, of its start; none if < 0."""
    lower = np.linalg.cholesky(part.V)[:, None]
    sums = np.sum(np.linalg.solve(lower, part.exact.factors) ** 2, axis=(2, 3))
    return float(np.max(np.diff(sums, axis=1) / sums[:, :1]))


def gap(part: Panel) -> float:
    r"""How far the last covariances are from $GMM^\top G^\top$ at most."""
    rest = part.exact.moving[:, -1]
    return float(np.max(np.linalg.norm(rest @ rest.swapaxes(1, 2), axis=(1, 2))))


def interval(count: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's interval for a probability."""
    if n == 0:
        return 0.0, 1.0
    both = binomtest(count, n).proportion_ci(CONFIDENCE, method="exact")
    return float(both.low), float(both.high)


def histograms(
    panels: Mapping[tuple[str, int], Panel], dims: tuple[int, ...]
) -> xr.Dataset:
    """Counts by rank, what is dropped, and how samples end."""
    top = max(dims) + 1
    count = lambda ranks: np.bincount(ranks, minlength=top)
    table = lambda of: [[of(panels[value, d]) for d in dims] for value in VALUES]
    place, bars = ("value", "d"), ("value", "d", "rank")
    return xr.Dataset(
        {
            "exact": (bars, table(lambda p: count(p.ranks))),
            "kept": (bars, table(lambda p: count(p.counted[p.kept]))),
            "over": (bars, table(lambda p: count(p.counted[p.over]))),
            "diverged": (place, table(lambda p: int(p.diverged.sum()))),
            "samples": (place, table(lambda p: len(p.V))),
            "endings": (place, table(lambda p: in_words(p.exact.endings))),
            "their_endings": (place, table(lambda p: in_words(p.endings.tolist()))),
        },
        coords={"value": list(VALUES), "d": list(dims), "rank": np.arange(top)},
    )


def curves(
    panels: Mapping[tuple[str, int], Panel], dims: tuple[int, ...]
) -> xr.Dataset:
    """The mean rank by the relative cut: solved, and of what the script keeps."""

    def ours(value: str, d: int) -> np.ndarray:
        part = panels[value, d]
        return part.eigenvalues if value == "identity" else part.exact.eigenvalues

    axes = ("value", "d", "cut")
    table = lambda of: [[mean_ranks(of(value, d)) for d in dims] for value in VALUES]
    return xr.Dataset(
        {
            "exact": (axes, table(ours)),
            "code": (axes, table(lambda *at: panels[at].theirs[panels[at].kept])),
        },
        coords={"value": list(VALUES), "d": list(dims), "cut": CUTS},
    )


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """The mean rank at every relative cut, of eigenvalues with the largest first."""
    relative = values / values[:, :1]
    return np.mean(np.sum(relative[..., None] > CUTS, axis=1), axis=0)
