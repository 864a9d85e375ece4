r"""The mean-field limit: `n` independent tokens compared with their law.

Every attention with continuous velocities moves `n` independent tokens of a law on the
line, and the law itself: in closed form if Gaussians stay Gaussian, else on a grid. The
distances fall like $n^{-1/2}$, up to the factor $(\log\log n)^{1/2}$ of $W_2$ to a
Gaussian, and two flows diverge no faster than castin2025, Theorem 3.1 allows.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from experiments.limits.fits import LEVEL, least_squares
from experiments.mean_field_limit.clouds import (
    BOUNDED,
    CLOSED,
    SIZES,
    A,
    Errors,
    Growth,
    Sizes,
    T,
    attention,
    distance_at_start,
    errors_of,
    growth_of,
)
from experiments.mean_field_limit.panels import draw
from meanfield.attention import attentions
from meanfield.reproduce import Case, Experiment, Findings

SEED = 0
HALF = -0.5
GAPS = ("mean", "covariance", "distance")
NORMAL = float(stats.norm.ppf((1 + LEVEL) / 2))


def compute(case: Case) -> Findings:
    """Errors by number of tokens, their slopes, and growth rates against the bound."""
    return findings(SIZES[case.size])


def _has_a_limit(name: str) -> bool:
    """Whether velocities are continuous and independent of the order of the tokens."""
    made = attention(name, A)
    return made.is_continuous and not made.coupling.reads_order


def findings(sizes: Sizes) -> Findings:
    """Findings for given sizes; see `compute`."""
    names = [name for name in attentions if _has_a_limit(name)]
    errors = {name: errors_of(name, sizes, SEED) for name in names}
    growth = {name: growth_of(name, sizes, SEED) for name in BOUNDED}
    slopes = {name: _slopes(part) for name, part in errors.items()}
    return Findings(
        spec={
            "seed": SEED,
            "t": T,
            **{k: _plain(v) for k, v in sizes._asdict().items()},
        },
        numbers={
            "t": T,
            "slopes": slopes,
            "level": LEVEL,
            "variants": len(errors),
            "against_grid": ", ".join(sorted(set(errors) - set(CLOSED))),
            **_extremes(slopes),
            "theory_of_distance": _theory_slope(sizes),
            "rates": {name: _rates(part) for name, part in growth.items()},
            "nearest_to_bound": max(float(g.share) for g in growth.values()),
        },
        data={
            "errors": _errors(errors, sizes),
            "growth": _growth(growth),
            "theory": xr.Dataset({"start": ("n", _at_start(sizes))}),
        },
    )


def _extremes(slopes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Extreme slopes, and the number of intervals that do not contain -1/2."""
    lines = [s for part in slopes.values() for s in (part["mean"], part["covariance"])]
    far = [part["distance"]["slope"] for part in slopes.values()]
    return {
        "flattest": max(line["slope"] for line in lines),
        "steepest": min(line["slope"] for line in lines),
        "outside": sum(not line["holds"] for line in lines),
        "slopes_measured": len(lines),
        "distance_flattest": max(far),
        "distance_steepest": min(far),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _slopes(gaps: Errors) -> dict[str, Any]:
    """Slopes of the errors in n at the end of the flow, with their intervals."""
    log_n = np.log(np.array(gaps.numbers, float))
    columns = np.stack([np.ones_like(log_n), log_n], axis=1)
    slopes = {}
    for name, uncertain in zip(GAPS, gaps.uncertain, strict=True):
        fit = least_squares(columns, np.log(getattr(gaps, name)), uncertain)
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
    """Slope of the exact initial distance, flatter than -1/2 by (log log n)^½."""
    log_n, y = np.log(np.array(sizes.numbers, float)), np.log(_at_start(sizes))
    return float(np.polyfit(log_n, y, 1)[0])


def _rates(pairs: Growth) -> dict[str, float]:
    return {"largest": pairs.rate, "bound": pairs.bound, "share": pairs.share}


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


EXPERIMENT = Experiment(
    source="castin2025, Section 3 and Theorem 3.1",
    claim=(
        "For every attention the distance of n independent tokens to the solution of "
        "the mean-field equation is of order n^(-1/2); the distance of two flows grows "
        "no faster than the stability constant allows."
    ),
    caption=(
        "Errors of n tokens against their law at t = {t:g}, root mean squares over "
        "draws, for {variants} attentions ({against_grid} against a grid). Slopes of "
        "the errors in mean and variance are from {steepest:.3f} to {flattest:.3f}, "
        "and {outside} of {slopes_measured} intervals of {level:.0%} miss -1/2; those "
        "of W₂ are from {distance_steepest:.3f} to {distance_flattest:.3f}, against "
        "{theory_of_distance:.3f} for the exact distance at t = 0. The growth rate "
        "(1/t) log W₂(t)/W₂(0) of two clouds is at most {nearest_to_bound:.2g} times "
        "the constant of the theorem."
    ),
    description=(
        "In the first three panels the errors of n tokens fall along the dotted line "
        "of slope -1/2, with one line for each attention. In the last panel the "
        "distance of two clouds (full lines) stays below the dashed bound."
    ),
    compute=compute,
    draw=draw,
)
