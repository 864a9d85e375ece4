"""Random flows on a line with known moments, a family for each kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import line_reference as oracles
import numpy as np
from line_reference import LineLaw, Moments

from meanfield.measures.laws import Law

Generator = np.random.Generator


@dataclass(frozen=True)
class Family:
    """The settings that determine a compiled program."""

    attention: str
    box: str
    cells: int
    d: int = 1
    noisy: bool = False
    count: int = 22


@dataclass(frozen=True)
class Problem:
    """A flow on a grid: keys of its spec, its initial law, and its end time."""

    family: Family
    label: str
    A: np.ndarray
    V: np.ndarray
    kappa: float
    t: float
    law: Law
    reach: dict[str, Any]  # `half_width` or `domain`
    exact: Callable[[], Moments]


LINES = (
    Family("softmax", "affine", 400),
    Family("softmax", "affine", 401),
    Family("softmax", "affine", 100),
    Family("softmax", "scaled", 200),
    Family("softmax", "fixed", 201, count=30),
    Family("softmax", "affine", 201, noisy=True),
    Family("softmax", "scaled", 101, noisy=True),
    Family("softmax", "fixed", 200, noisy=True, count=30),
    Family("l2", "fixed", 201, count=26),
    Family("l2", "affine", 200),
    Family("sinkhorn", "affine", 100),
    Family("sigmoid", "scaled", 201),
    Family("sigmoid", "fixed", 200, count=26),
    Family("linear", "affine", 201),
    Family("linear", "fixed", 200, noisy=True, count=26),
)

HEAVY = ("sigmoid", "l2", "linear")  # attentions with finite averages under heavy tails


def log(rng: Generator, low: float, high: float) -> float:
    """A random number between two others, uniform in its logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def line_law(family: Family, rng: Generator) -> LineLaw:
    """A centred, shifted, bimodal, compact or heavy law."""
    s = log(rng, 0.3, 2)
    m = float(rng.choice([0.0, rng.uniform(-1.5, 1.5)])) * s
    kinds = ["normal", "normal", "bumps", "uniform", "parabola"]
    if family.attention in HEAVY:
        kinds += ["laplace", "logistic", "student"]
    if family.box == "fixed" or family.cells == 0:  # its ends lie within cells
        kinds.remove("uniform")
    if family.noisy and family.attention != "linear":
        kinds = ["normal", "normal", "bumps"]
    kind = str(rng.choice(kinds))
    ones = np.ones(1)
    if kind == "normal":
        return replace(oracles.bumps(m * ones, s * ones, ones), name="normal")
    if kind == "bumps":
        k = int(rng.integers(2, 4))
        centres, shares = rng.uniform(-1.5, 1.5, k) * s + m, rng.uniform(0.2, 1, k)
        reach = 22.0 if family.attention == "softmax" else 9.0
        return oracles.bumps(centres, rng.uniform(0.3, 0.7, k) * s, shares, reach)
    if kind in ("uniform", "parabola"):
        return getattr(oracles, kind)(m - 1.7 * s, m + 1.7 * s)
    if kind == "student":
        return oracles.student(m, s, float(rng.uniform(5, 9)))
    return getattr(oracles, kind)(m, s)


def duration(family: Family, A: float, V: float, law: LineLaw, rng: Generator) -> float:
    """A time long enough for changes, and before any blow-up."""
    second = law.variance + law.mean**2
    s = law.variance
    rate = {
        "softmax": 2 * abs(A) * s,
        "l2": 4 * abs(A) * s / (1 + 2 * s),
        "sinkhorn": 4 * abs(A) * s / (1 + np.sqrt(1 + 4 * A**2 * s**2)),
        "sigmoid": 0.5 * abs(A) * second / (1 + abs(A) * second),
        "linear": 2 * abs(A) * second,
    }[family.attention] * abs(V)
    drift = abs(V) if family.attention != "linear" else 0.0
    grows = A * V > 0
    is_bounded = family.attention in ("l2", "sinkhorn", "sigmoid")
    ends = 3.0 if is_bounded else (0.9 if grows else 4.0)
    return float(rng.uniform(0.15, 1)) * min(ends / rate, 2.5 / (drift + 1e-9))


def problem_on_line(family: Family, rng: Generator) -> Problem:
    """A random problem of a family on a line."""
    law = line_law(family, rng)
    V = float(rng.choice([-1, 1])) * log(rng, 0.3, 2)
    strength = log(rng, 0.1, 1.0 if family.attention == "sinkhorn" else 1.5)
    A = float(rng.choice([-1, 1])) * strength / law.variance
    if family.attention == "l2":
        A = float(rng.choice([-1, 1])) * log(rng, 0.2, 1.5)
    if family.noisy and law.name == "bumps" and family.attention == "softmax":
        # exp(Axy) must not amplify the rounding errors of Fourier modes.
        A = -np.sign(V) * min(strength, 0.4) / law.variance
    t = duration(family, A, V, law, rng)
    kappa = log(rng, 0.02, 0.5) * law.variance / t if family.noisy else 0.0
    identity = np.eye(1)
    exact = moments_on_line(family, law, A, V, kappa, t)
    reach = _line_reach(family, law, exact, rng)
    gaussian = Law(law.density, np.array([law.mean]), law.variance * identity, 12.0)
    return Problem(
        family, law.name, A * identity, V * identity, kappa, t, gaussian, reach, exact
    )


def moments_on_line(
    family: Family, law: LineLaw, A: float, V: float, kappa: float, t: float
) -> Callable[[], Moments]:
    """Final moments: in closed form, by tokens, or with noise by Fourier's method."""
    name, identity = family.attention, np.eye(1)
    start = np.array([law.mean]), law.variance * identity
    closed = law.name == "normal" and name != "sigmoid"
    if closed or name == "linear":
        return lambda: oracles.gaussian_moments(
            name, A * identity, V * identity, kappa, start, t
        )
    if family.noisy:
        return lambda: oracles.moments_by_fourier(law, name, A, V, kappa, t)
    return lambda: oracles.moments_by_tokens(law, name, A, V, t)


def _line_reach(
    family: Family, law: LineLaw, exact: Callable[[], Moments], rng: Generator
) -> dict[str, Any]:
    """A box in standard deviations of the start, or around the start and the end."""
    if family.box != "fixed":
        width = float(rng.choice([12.0, 12.0, rng.uniform(6, 16)]))
        return {"half_width": 2 * np.sqrt(3) if law.name == "uniform" else width}
    s, (mean, covariance) = np.sqrt(law.variance), exact()
    end, deviation = float(mean[0]), float(np.sqrt(covariance[0, 0]))
    margin = float(rng.uniform(5, 9))
    if not np.isfinite(end + deviation) or deviation > 12 * s:
        end, deviation = law.mean, 1.5 * s
    low = min(law.mean - margin * s, end - margin * deviation)
    return {"domain": [low, max(law.mean + margin * s, end + margin * deviation)]}
