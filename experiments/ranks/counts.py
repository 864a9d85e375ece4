"""Ranks of exact limits, and ranks as the published script counts them."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import binomtest

from experiments.covariances.families import format_counts, value_range
from experiments.ranks.flows import END_TIME, RTOL, SEED, Solutions
from experiments.ranks.samples import (
    MAX_TRACE,
    RANK_THRESHOLD,
    Panel,
    Recipe,
    compute_panel,
)
from meanfield.reproduce import Case, Findings, Rows
from meanfield.workers import threads

SIZES = {"paper": ((3, 4, 5), 100), "quick": ((3,), 20)}
CONFIDENCE = 0.95  # confidence level of the intervals
THRESHOLDS = np.geomspace(1e-14, 1e-1, 131)  # in units of the largest eigenvalue
VALUES = ("identity", "random")
NAMES = {"softmax": "softmax", "l2": "L2"}
LAWS = {
    "identity": "I",
    "random": "W^T W, W d x d i.i.d. N(0, 1)",
    "iid": "W, d x d i.i.d. N(0, 1)",
}
Count = Callable[[Panel], Any]


def findings_of(recipe: Recipe, case: Case) -> Findings:
    """Findings for exact flows and published steps; `case` selects which are drawn."""
    dims, n = SIZES[case.size]
    panels = compute_panels(recipe, VALUES, case)
    rows = {
        value: {
            **summarise([panels[value, d] for d in dims]),
            "by_dimension": {str(d): summarise([panels[value, d]]) for d in dims},
        }
        for value in VALUES
    }
    numbers = {
        "reading": case.reading,
        "name": NAMES[recipe.attention],
        "dimensions": join_with_and(dims),
        "samples": n,
        "t": END_TIME,
        "rank_threshold": RANK_THRESHOLD,
        "confidence": CONFIDENCE,
        **rows,
    }
    data = {"ranks": histograms(panels, dims), "thresholds": curves(panels, dims)}
    return Findings(specification(recipe, VALUES, case), numbers, data)


def join_with_and(dims: tuple[int, ...]) -> str:
    """Numbers as English text, such as `3, 4 and 5`."""
    return " and ".join(", ".join(map(str, dims)).rsplit(", ", 1))


def compute_panels(
    recipe: Recipe, values: tuple[str, ...], case: Case
) -> dict[tuple[str, int], Panel]:
    """The panels of a figure, by kind of V and dimension."""
    dims, n = SIZES[case.size]
    kinds = [(value, d) for value in reversed(values) for d in reversed(dims)]
    with threads() as pool:  # a single panel would use only one core
        panels = pool.map(
            lambda kind: compute_panel(recipe, kind[0], kind[1], n), kinds
        )
        return dict(zip(kinds, panels, strict=True))


def specification(
    recipe: Recipe, values: tuple[str, ...], case: Case
) -> dict[str, Any]:
    """Everything that determines a figure, as JSON values."""
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
        "text": {"epsilon": 1.0, "t": END_TIME, "rtol": RTOL},
        "code": {
            value: {str(d): recipe.rule(value, d)._asdict() for d in dims}
            for value in values
        },
    }


def summarise(panels: list[Panel]) -> dict[str, Any]:
    """Joint counts of several panels, for the solutions and for the script."""
    return {**summarise_solutions(panels), **summarise_script(panels)}


def concatenate(panels: list[Panel], values_of: Count) -> np.ndarray:
    """The values of a quantity for all samples of several panels."""
    return np.concatenate([values_of(panel) for panel in panels])


def expected_ranks(panel: Panel) -> np.ndarray:
    """The expected rank of a panel, repeated for each sample."""
    return np.full(len(panel.V), panel.expected_rank)


def summarise_solutions(panels: list[Panel]) -> dict[str, Any]:
    """Ranks, endings, traces and decay of the exact flows in several panels."""
    join = lambda values_of: concatenate(panels, values_of)
    nonvanishing = lambda p: np.count_nonzero(p.solutions.exponents > -0.5, axis=1)
    expected, ranks = join(expected_ranks), join(lambda p: p.ranks)
    endings = np.array([name for p in panels for name in p.solutions.endings])
    diverged, traces = join(lambda p: p.diverged), join(largest_traces)
    return {
        "samples": len(expected),
        "with_expected_rank": int(np.sum(ranks == expected)),
        "with_expected_decay": int(np.sum(join(nonvanishing) == expected)),
        "endings": dict(Counter(endings.tolist())),
        "endings_in_words": format_counts(endings.tolist()),
        "blow_ups": int(np.sum(endings == "blow-up")),
        "largest_trace": float(traces.max()),
        "largest_trace_of_diverged": value_range(traces[diverged]),
        "max_increase": max(max_increase(p) for p in panels),
        "distance_to_limit": max(distance_to_limit(p.solutions) for p in panels),
        "decay_exponents": five_numbers(join(_decay_exponents)),
        "diverged_and_blow_up": int(np.sum(diverged & (endings == "blow-up"))),
        "diverged_and_large_trace": int(np.sum(diverged & (traces > MAX_TRACE))),
    }


def summarise_script(panels: list[Panel]) -> dict[str, Any]:
    """Ranks and endings in the script over several panels, and causes of low ranks."""
    join = lambda values_of: concatenate(panels, values_of)
    n_above = lambda values: np.count_nonzero(values > RANK_THRESHOLD, axis=1)
    expected = join(expected_ranks)
    excess, kept = join(lambda p: p.has_excess_rank), join(lambda p: p.is_kept)
    visible = join(lambda p: n_above(p.eigenvalues))
    # No eigenvalue of a limit is below the corresponding eigenvalue of its constant
    # part.
    certain = join(lambda p: n_above(p.constant_eigenvalues))
    below = kept & (join(lambda p: p.script_ranks) < expected)
    endings = join(lambda p: p.script_endings).tolist()
    return {
        "diverged": int(join(lambda p: p.diverged).sum()),
        "script_endings": dict(Counter(endings)),
        "excess_rank": int(excess.sum()),
        "dropped": int(np.sum(~kept)),
        "kept": int(kept.sum()),
        "below": int(below.sum()),
        "below_by_threshold": int(np.sum(below & (visible < expected))),
        "below_by_steps": int(np.sum(below & (visible == expected))),
        "below_by_steps_certainly": int(np.sum(below & (certain == expected))),
    }


def _decay_exponents(panel: Panel) -> np.ndarray:
    """Exponents p of the eigenvalues that go to zero like t^p."""
    return panel.solutions.exponents[:, panel.expected_rank :].ravel()


def five_numbers(values: np.ndarray) -> dict[str, float]:
    """Minimum, quartiles, median and maximum of a sample."""
    percents = {"min": 0, "lower": 25, "median": 50, "upper": 75, "max": 100}
    return {name: float(np.percentile(values, q)) for name, q in percents.items()}


def largest_traces(panel: Panel) -> np.ndarray:
    """The largest trace of each sample over all frames."""
    return np.max(np.sum(panel.solutions.factors**2, axis=(2, 3)), axis=1)


def max_increase(panel: Panel) -> float:
    r"""Largest increase of $\mathrm{tr}\,V^{-1}\Sigma$, relative to its initial value.

    It is negative if the trace decreases from every frame to the next.
    """
    lower = np.linalg.cholesky(panel.V)[:, None]
    factors = np.linalg.solve(lower, panel.solutions.factors)
    traces = np.sum(factors**2, axis=(2, 3))
    return float(np.max(np.diff(traces, axis=1) / traces[:, :1]))


def distance_to_limit(solutions: Solutions) -> float:
    r"""The largest distance of a final covariance to its limit $GMM^\top G^\top$."""
    last = solutions.moving_factors[:, -1]
    return float(np.max(np.linalg.norm(last @ last.swapaxes(1, 2), axis=(1, 2))))


def clopper_pearson_interval(count: int, n: int) -> tuple[float, float]:
    """Confidence interval of Clopper and Pearson for a probability."""
    if n == 0:
        return 0.0, 1.0
    interval = binomtest(count, n).proportion_ci(CONFIDENCE, method="exact")
    return float(interval.low), float(interval.high)


def histograms(
    panels: Mapping[tuple[str, int], Panel], dims: tuple[int, ...]
) -> xr.Dataset:
    """Counts by rank, numbers of dropped samples, and endings."""
    n_ranks = max(dims) + 1
    count = lambda ranks: np.bincount(ranks, minlength=n_ranks)
    table = lambda count_of: [
        [count_of(panels[value, d]) for d in dims] for value in VALUES
    ]
    by_panel, by_rank = ("value", "d"), ("value", "d", "rank")
    excess = lambda p: count(p.script_ranks[p.has_excess_rank])
    script_endings = lambda p: format_counts(p.script_endings.tolist())
    return xr.Dataset(
        {
            "exact": (by_rank, table(lambda p: count(p.ranks))),
            "kept": (by_rank, table(lambda p: count(p.script_ranks[p.is_kept]))),
            "excess_rank": (by_rank, table(excess)),
            "diverged": (by_panel, table(lambda p: int(p.diverged.sum()))),
            "samples": (by_panel, table(lambda p: len(p.V))),
            "endings": (by_panel, table(lambda p: format_counts(p.solutions.endings))),
            "script_endings": (by_panel, table(script_endings)),
        },
        coords={"value": list(VALUES), "d": list(dims), "rank": np.arange(n_ranks)},
    )


def curves(
    panels: Mapping[tuple[str, int], Panel], dims: tuple[int, ...]
) -> xr.Dataset:
    """Mean rank at each relative threshold.

    There is one curve for exact flows, and one for the samples that the script keeps.
    """

    def solved(value: str, d: int) -> np.ndarray:
        panel = panels[value, d]
        is_exact = value == "identity"
        return panel.eigenvalues if is_exact else panel.solutions.eigenvalues

    def kept(value: str, d: int) -> np.ndarray:
        panel = panels[value, d]
        return panel.script_eigenvalues[panel.is_kept]

    axes = ("value", "d", "threshold")
    table = lambda eigenvalues_of: [
        [mean_ranks(eigenvalues_of(value, d)) for d in dims] for value in VALUES
    ]
    return xr.Dataset(
        {"exact": (axes, table(solved)), "code": (axes, table(kept))},
        coords={"value": list(VALUES), "d": list(dims), "threshold": THRESHOLDS},
    )


def mean_ranks(eigenvalues: np.ndarray) -> np.ndarray:
    """The mean rank at each relative threshold; eigenvalues must be descending."""
    relative = eigenvalues / eigenvalues[:, :1]
    return np.mean(np.sum(relative[..., None] > THRESHOLDS, axis=1), axis=0)


def count_table(numbers: Mapping[str, Any]) -> Rows:
    """Table of counts for exact flows and published steps, by kind of V."""
    threshold = f"{numbers['rank_threshold']:g}"
    labels = {
        "samples": "samples",
        "with_expected_rank": "exact limits with the rank ⌈d/2⌉",
        "endings_in_words": f"solved to t = {numbers['t']:.0e}: endings",
        "diverged": "published Euler steps: divergent",
        "diverged_and_blow_up": "divergent, and the solution blows up",
        "excess_rank": "dropped because of a rank above ⌈d/2⌉",
        "kept": "kept",
        "below": "kept with a rank below ⌈d/2⌉",
        "below_by_threshold": f"below because of the absolute threshold {threshold}",
        "below_by_steps": "below because of the steps",
    }
    rows = [
        (label, *(str(numbers[value][key]) for value in VALUES))
        for key, label in labels.items()
    ]
    return [("", "V = I", "V = WᵀW"), *rows]
