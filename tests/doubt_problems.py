"""Random flows on grids whose moments are known otherwise, a family for each kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import doubt_oracles as oracles
import numpy as np
from doubt_oracles import LineLaw, Moments

from meanfield.measures.laws import Law

Generator = np.random.Generator


@dataclass(frozen=True)
class Family:
    """What problems share that a program is compiled for."""

    attention: str
    box: str
    cells: int
    d: int = 1
    noisy: bool = False
    count: int = 22


@dataclass(frozen=True)
class Problem:
    """A flow on a grid: keys of its spec, the law that it starts from, and its end."""

    family: Family
    label: str
    A: np.ndarray
    V: np.ndarray
    kappa: float
    t: float
    law: Law
    reach: dict[str, Any]  # `half_width` or `domain`
    exact: Callable[[], Moments]


FAMILIES = (
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
    Family("softmax", "affine", 48, d=2, count=4),
    Family("linear", "fixed", 49, d=2, count=4),
    Family("softmax", "scaled", 48, d=2, noisy=True, count=4),
)

ENDS, PAIR = np.array([-1.0, 1.0]), np.array([-0.9, 0.9])
HEAVY = ("sigmoid", "l2", "linear")  # whose averages are finite under heavy tails


def problem(family: Family, rng: Generator) -> Problem:
    """A random problem of a family."""
    return _on_line(family, rng) if family.d == 1 else _in_plane(family, rng)


def _log(rng: Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def line_law(family: Family, rng: Generator) -> LineLaw:
    """A centred, shifted, bimodal, compact or heavy law."""
    s = _log(rng, 0.3, 2)
    m = float(rng.choice([0.0, rng.uniform(-1.5, 1.5)])) * s
    kinds = ["normal", "normal", "bumps", "uniform", "parabola"]
    if family.attention in HEAVY:
        kinds += ["laplace", "logistic", "student"]
    if family.box == "fixed" or family.cells == 0:  # its ends lie within cells
        kinds.remove("uniform")
    if family.noisy and family.attention != "linear":
        kinds = ["normal", "normal", "bumps"]
    kind = str(rng.choice(kinds))
    one = np.ones(1)
    if kind == "normal":
        return replace(oracles.bumps(m * one, s * one, one), name="normal")
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


def _time(family: Family, A: float, V: float, law: LineLaw, rng: Generator) -> float:
    """A time in which something happens, short of a blow-up."""
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
    bounded = family.attention in ("l2", "sinkhorn", "sigmoid")
    ends = 3.0 if bounded else (0.9 if grows else 4.0)
    return float(rng.uniform(0.15, 1)) * min(ends / rate, 2.5 / (drift + 1e-9))


def _on_line(family: Family, rng: Generator) -> Problem:
    law = line_law(family, rng)
    V = float(rng.choice([-1, 1])) * _log(rng, 0.3, 2)
    strength = _log(rng, 0.1, 1.0 if family.attention == "sinkhorn" else 1.5)
    A = float(rng.choice([-1, 1])) * strength / law.variance
    if family.attention == "l2":
        A = float(rng.choice([-1, 1])) * _log(rng, 0.2, 1.5)
    if family.noisy and law.name == "bumps" and family.attention == "softmax":
        # Waves have rounding everywhere, which exp(Axy) must not lift.
        A = -np.sign(V) * min(strength, 0.4) / law.variance
    t = _time(family, A, V, law, rng)
    kappa = _log(rng, 0.02, 0.5) * law.variance / t if family.noisy else 0.0
    one = np.eye(1)
    exact = _moments_on_line(family, law, A, V, kappa, t)
    reach = _line_reach(family, law, exact, rng)
    own = Law(law.density, np.array([law.mean]), law.variance * one, 12.0)
    return Problem(family, law.name, A * one, V * one, kappa, t, own, reach, exact)


def _moments_on_line(
    family: Family, law: LineLaw, A: float, V: float, kappa: float, t: float
) -> Callable[[], Moments]:
    """The moments at the end: in closed form, by tokens, or under noise by waves."""
    name, one = family.attention, np.eye(1)
    start = np.array([law.mean]), law.variance * one
    closed = law.name == "normal" and name != "sigmoid"
    if closed or name == "linear":
        return lambda: oracles.by_moments(name, A * one, V * one, kappa, start, t)
    if family.noisy:
        return lambda: oracles.by_waves(law, name, A, V, kappa, t)
    return lambda: oracles.by_tokens(law, name, A, V, t)


def _line_reach(
    family: Family, law: LineLaw, exact: Callable[[], Moments], rng: Generator
) -> dict[str, Any]:
    """A box in deviations of the start, or one about the start and the end."""
    if family.box != "fixed":
        width = float(rng.choice([12.0, 12.0, rng.uniform(6, 16)]))
        return {"half_width": 2 * np.sqrt(3) if law.name == "uniform" else width}
    s, (mean, covariance) = np.sqrt(law.variance), exact()
    end, there = float(mean[0]), float(np.sqrt(covariance[0, 0]))
    margin = float(rng.uniform(5, 9))
    if not np.isfinite(end + there) or there > 12 * s:
        end, there = law.mean, 1.5 * s
    low = min(law.mean - margin * s, end - margin * there)
    return {"domain": [low, max(law.mean + margin * s, end + margin * there)]}


def _in_plane(family: Family, rng: Generator) -> Problem:
    if family.attention == "linear" or rng.uniform() < 0.5:
        return _moments_in_plane(family, rng)
    return _product(family, rng)


def _plane_reach(
    family: Family, law: Law, end: Moments, rng: Generator
) -> dict[str, Any]:
    """A box in deviations of the start, or one about the start and the end."""
    if family.box != "fixed":
        return {"half_width": float(rng.choice([8.0, rng.uniform(5, 9)]))}
    margin, rows = float(rng.uniform(4.5, 7)), []
    for k, (m, e) in enumerate(zip(law.mean, end[0], strict=True)):
        s, there = np.sqrt(law.covariance[k, k]), np.sqrt(abs(end[1][k, k]))
        if not np.isfinite(e + there) or there > 8 * s:
            e, there = m, 1.3 * s
        low = min(m - margin * s, e - margin * there)
        rows.append([float(low), float(max(m + margin * s, e + margin * there))])
    return {"domain": rows}


def _moments_in_plane(family: Family, rng: Generator) -> Problem:
    """A Gaussian under any matrices; under `linear`, a product of other laws too."""
    angle, spread = rng.uniform(0, np.pi), np.array([1.0, _log(rng, 0.4, 1)])
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    S = _log(rng, 0.3, 1.5) ** 2 * (R * spread**2) @ R.T
    m = float(rng.choice([0, 1])) * rng.uniform(-0.7, 0.7, 2) * np.sqrt(np.trace(S))
    A = rng.normal(size=(2, 2)) * _log(rng, 0.1, 0.6) / np.linalg.norm(S, 2)
    V = float(rng.choice([-1, 1])) * (np.eye(2) + 0.3 * rng.normal(size=(2, 2)))
    second = S + np.outer(m, m) * (family.attention == "linear")
    size = np.linalg.norm(V, 2) * np.linalg.norm(A, 2) * np.linalg.norm(second, 2)
    t = float(rng.uniform(0.15, 0.8) * min(0.5 / size, 1.5))
    kappa = _log(rng, 0.02, 0.5) * np.trace(S) / 2 / t if family.noisy else 0.0
    name, law = "normal", _normal_in_plane(m, S)
    if family.attention == "linear" and rng.uniform() < 0.6:
        name = str(rng.choice(["parabola", "laplace", "bumps"]))
        law = _product_law(name, m, np.sqrt(np.diag(S)))
    start = law.mean, law.covariance
    exact = lambda: oracles.by_moments(family.attention, A, V, kappa, start, t)
    reach = _plane_reach(family, law, exact(), rng)
    return Problem(family, f"plane {name}", A, V, kappa, t, law, reach, exact)


def _normal_in_plane(m: np.ndarray, S: np.ndarray) -> Law:
    P, norm = np.linalg.inv(S), 2 * np.pi * np.sqrt(np.linalg.det(S))
    bell = lambda x: np.exp(-np.sum((x - m) @ P * (x - m), axis=1) / 2) / norm
    return Law(bell, m, S, 8.0)


def _product_law(name: str, m: np.ndarray, s: np.ndarray) -> Law:
    half = np.ones(2) / 2
    two = lambda k: oracles.bumps(m[k] + s[k] * PAIR, 0.45 * s[k] * np.ones(2), half)
    make = {
        "parabola": lambda k: oracles.parabola(*map(float, m[k] + 2 * s[k] * ENDS)),
        "laplace": lambda k: oracles.laplace(float(m[k]), float(s[k] / np.sqrt(2))),
        "bumps": two,
    }[name]
    parts = make(0), make(1)
    density = lambda x: parts[0].density(x[:, 0]) * parts[1].density(x[:, 1])
    mean = np.array([p.mean for p in parts])
    return Law(density, mean, np.diag([p.variance for p in parts]), 8.0)


def _product(family: Family, rng: Generator) -> Problem:
    """Independent coordinates under diagonal matrices: each flows on its own.

    For the time of the first: `V` of the second is scaled to it. One noise for both is
    known for Gaussians alone.
    """
    line = Family(family.attention, "affine", 0, noisy=family.noisy)
    first, second = _on_line(line, rng), _on_line(line, rng)
    A = np.diag([first.A[0, 0], second.A[0, 0]])
    V = np.diag([first.V[0, 0], second.V[0, 0] * (second.t / first.t)])
    mean = np.concatenate([first.law.mean, second.law.mean])
    S = np.diag([first.law.covariance[0, 0], second.law.covariance[0, 0]])
    both = lambda x: first.law.density(x[:, 0]) * second.law.density(x[:, 1])
    kappa, t, law = first.kappa, first.t, Law(both, mean, S, 8.0)
    label, exact = f"product {first.label} {second.label}", _side_by_side(first, second)
    if family.noisy:
        label, law = "product normal", _normal_in_plane(mean, S)
        start = mean, S
        exact = lambda: oracles.by_moments(family.attention, A, V, kappa, start, t)
    reach = _plane_reach(family, law, exact(), rng)
    return Problem(family, label, A, V, kappa, t, law, reach, exact)


def _side_by_side(first: Problem, second: Problem) -> Callable[[], Moments]:
    def exact() -> Moments:
        (m0, s0), (m1, s1) = first.exact(), second.exact()
        return np.concatenate([m0, m1]), np.diag([s0[0, 0], s1[0, 0]])

    return exact
