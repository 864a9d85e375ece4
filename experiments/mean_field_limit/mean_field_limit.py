r"""The mean-field limit: `n` independent tokens compared with their law.

For every attention with continuous velocities, `n` independent tokens on the line are
compared with the law from which they are drawn. The law is integrated as a Gaussian if
Gaussians stay Gaussian, and otherwise on a grid. The $W_2$ distance between tokens and
law decreases like $n^{-1/2}$, up to a factor $(\log\log n)^{1/2}$ for Gaussian laws.
Two flows diverge no faster than castin2025, Theorem 3.1 allows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from experiments.limits.fits import LEVEL, least_squares
from experiments.mean_field_limit.clouds import (
    BOUNDED,
    CLOSED_FORMS,
    SIZES,
    A,
    Errors,
    Growth,
    Sizes,
    T,
    attention,
    distance_at_start,
    measure_errors,
    measure_growth,
)
from experiments.mean_field_limit.panels import draw
from meanfield.attention import attentions
from meanfield.reproduce import Case, Experiment, Findings, Rows

SEED = 0
HALF = -0.5
GAPS = ("mean", "covariance", "distance")
NORMAL = float(stats.norm.ppf((1 + LEVEL) / 2))


def compute(case: Case) -> Findings:
    """Errors by number of tokens, their slopes, and growth rates with their bounds."""
    return findings(SIZES[case.size])


def _has_a_limit(name: str) -> bool:
    """Whether velocities are continuous and independent of the order of the tokens."""
    made = attention(name, A)
    return made.is_continuous and not made.coupling.reads_order


def findings(sizes: Sizes) -> Findings:
    """Findings of the experiment for given problem sizes."""
    names, keys = [n for n in attentions if _has_a_limit(n)], sizes._asdict()
    errors = {name: measure_errors(name, sizes, SEED) for name in names}
    growth = {name: measure_growth(name, sizes, SEED) for name in BOUNDED}
    slopes = {name: _slopes(part) for name, part in errors.items()}
    return Findings(
        spec={"seed": SEED, "t": T, **{k: _plain(v) for k, v in keys.items()}},
        numbers={
            "t": T,
            "draws": sizes.draws,
            "slopes": slopes,
            "level": LEVEL,
            "n_attentions": len(errors),
            "against_grid": ", ".join(sorted(set(errors) - set(CLOSED_FORMS))),
            **_extremes(slopes),
            "exact_distance_slope": _theory_slope(sizes),
            "rates": {name: _rates(part) for name, part in growth.items()},
            "max_rate_over_bound": max(
                float(g.ratio_to_bound) for g in growth.values()
            ),
        },
        data={
            "errors": _errors(errors, sizes),
            "growth": _growth(growth),
            "theory": xr.Dataset({"start": ("n", _at_start(sizes))}),
        },
    )


def _extremes(slopes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Smallest and largest slopes, and number of intervals that do not contain -1/2."""
    lines = [s for part in slopes.values() for s in (part["mean"], part["covariance"])]
    distances = [part["distance"]["slope"] for part in slopes.values()]
    return {
        "slope_max": max(line["slope"] for line in lines),
        "slope_min": min(line["slope"] for line in lines),
        "n_outside": sum(not line["holds"] for line in lines),
        "n_intervals": len(lines),
        "distance_slope_max": max(distances),
        "distance_slope_min": min(distances),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _slopes(gaps: Errors) -> dict[str, Any]:
    """Slopes of the final errors as functions of n, with their intervals."""
    log_n = np.log(np.array(gaps.numbers, float))
    columns = np.stack([np.ones_like(log_n), log_n], axis=1)
    slopes = {}
    for name, log_errors in zip(GAPS, gaps.log_errors, strict=True):
        fit = least_squares(columns, np.log(getattr(gaps, name)), log_errors)
        slope, half = float(fit.values[1]), float(NORMAL * fit.errors[1])
        slopes[name] = {
            "slope": slope,
            "half_width": half,
            "factor": float(np.exp(fit.values[0])),
            "holds": bool(abs(slope - HALF) <= half),
        }
    return slopes


def _at_start(sizes: Sizes) -> np.ndarray:
    return np.array([distance_at_start(n) for n in sizes.numbers])


def _theory_slope(sizes: Sizes) -> float:
    """Slope of the exact initial distance as a function of n, on logarithmic axes.

    It is above -1/2, due to the factor (log log n)^½.
    """
    log_n, y = np.log(np.array(sizes.numbers, float)), np.log(_at_start(sizes))
    return float(np.polyfit(log_n, y, 1)[0])


def _rates(pairs: Growth) -> dict[str, float]:
    return {"largest": pairs.rate, "bound": pairs.bound, "ratio": pairs.ratio_to_bound}


def _errors(errors: dict[str, Errors], sizes: Sizes) -> xr.Dataset:
    names = list(errors)
    stack = lambda what: np.stack([getattr(errors[name], what) for name in names])
    variables = {
        w: (("variant", "n"), stack(w)) for w in ("mean", "covariance", "distance")
    }
    return xr.Dataset(variables, {"variant": names, "n": list(sizes.numbers)})


def _growth(growth: dict[str, Growth]) -> xr.Dataset:
    names = list(growth)
    return xr.Dataset(
        {
            "ratio": (("variant", "time"), np.stack([growth[n].ratios for n in names])),
            "bound": ("variant", [growth[n].bound for n in names]),
        },
        {"variant": names, "time": growth[names[0]].times},
    )


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of slopes of errors, and of growth rates relative to their bound."""
    heads = (
        "attention",
        "slope of the mean",
        "of the variance",
        "of W₂",
        "growth rate / bound",
    )
    rows = []
    for name, slopes in numbers["slopes"].items():
        cells = [
            f"{slopes[gap]['slope']:.2f} ± {slopes[gap]['half_width']:.2f}"
            for gap in GAPS
        ]
        rate = numbers["rates"].get(name)
        rows.append((name, *cells, f"{rate['ratio']:.2g}" if rate else ""))
    return [heads, *rows]


EXPERIMENT = Experiment(
    source="castin2025, Section 3 and Theorem 3.1",
    claim=(
        "For every attention the distance of n independent tokens to the solution of "
        "the mean-field equation is of order n^(-1/2); the distance of two flows grows "
        "no faster than the stability constant allows."
    ),
    caption=(
        "Errors of n tokens against their law at t = {t:g} for {n_attentions} "
        "attentions ({against_grid} against a grid), root mean squares over {draws} "
        "draws. Of {n_intervals} intervals of {level:.0%} for the slopes of the errors "
        "in mean and variance {n_outside} miss -½; the exact initial distance W₂ has "
        "the slope {exact_distance_slope:.3f}. Distances of two clouds grow at most "
        "{max_rate_over_bound:.2g} times as fast as the theorem allows."
    ),
    table=table,
    description=(
        "In the first three panels the errors of n tokens fall along the dotted line "
        "of slope -½, with one line for each attention. In the last panel the "
        "distance of two clouds (full lines) stays below the dashed bound."
    ),
    compute=compute,
    draw=draw,
)
