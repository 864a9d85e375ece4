"""Random flows in the plane whose moments are known by other means."""

from typing import Any

import line_reference as lines
import numpy as np
import plane_reference as oracles
from line_problems import (
    Family,
    Generator,
    Problem,
    duration,
    line_law,
    log,
    moments_on_line,
)
from line_reference import Moments
from plane_reference import PlaneLaw

from meanfield.measures.laws import Law

PLANES = (
    Family("softmax", "affine", 40, d=2, count=14),
    Family("softmax", "affine", 25, d=2, count=8),
    Family("softmax", "scaled", 33, d=2, count=8),
    Family("softmax", "fixed", 32, d=2, count=16),
    Family("softmax", "scaled", 36, d=2, noisy=True, count=7),
    Family("softmax", "fixed", 41, d=2, noisy=True, count=7),
    Family("l2", "affine", 33, d=2, count=12),
    Family("sinkhorn", "affine", 24, d=2, count=8),
    Family("sigmoid", "fixed", 32, d=2, count=12),
    Family("linear", "scaled", 25, d=2, noisy=True, count=12),
)

COMPACT = ("disc", "dome")
SEPARATE = (
    "softmax",
    "l2",
    "sinkhorn",
)  # attentions whose axes decouple under diagonal matrices
LEAST = {  # half-widths of moving boxes in deviations, if not 4.5
    **dict.fromkeys(("uniform", "parabola", "disc", "dome"), 3.0),
    **dict.fromkeys(("ring", "bumps"), 3.5),
}
LASTING = {
    "l2": 1.5,
    "sinkhorn": 3.0,
    "sigmoid": 4.0,
}  # end times, since growth is bounded


def problem_in_plane(family: Family, rng: Generator) -> Problem:
    """A random problem of a family in the plane."""
    separate = 0.4 if family.attention in SEPARATE else 0.0
    return (_product if rng.uniform() < separate else _elliptic)(family, rng)


def _shear(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random shift, and a random root of the covariance."""
    angle, spread = rng.uniform(0, np.pi), np.array([1.0, log(rng, 0.4, 1)])
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    F = log(rng, 0.3, 0.8) * R * spread
    m = float(rng.choice([0, 1])) * rng.uniform(-0.7, 0.7, 2) * np.linalg.norm(F)
    return m, F


def plane_law(family: Family, rng: Generator) -> PlaneLaw:
    """A centred, shifted, bimodal, compact, hollow or heavy law, of ellipses or not."""
    place = _shear(rng)
    kinds = ["normal", "normal", "bumps", "bumps", "disc", "dome", "ring"]
    if family.attention in ("sigmoid", "linear"):  # far nodes are inaccurate under l2
        kinds += 2 * ["cusp", "student"]
    if family.box == "fixed":  # the ends of a disc lie within cells
        kinds.remove("disc")
    closed = family.noisy and family.attention != "linear"
    if closed or family.attention == "sinkhorn":
        kinds = ["normal"]
    kind = str(rng.choice(kinds))
    if kind == "normal":
        law = oracles.bumps(np.zeros((1, 2)), np.ones(1), np.ones(1), place)
        return PlaneLaw("normal", law.density, law.mean, law.covariance, law.nodes)
    if kind == "bumps":
        k = int(rng.integers(2, 4))
        deviations, shares = rng.uniform(0.45, 0.75, k), rng.uniform(0.2, 1, k)
        return oracles.bumps(rng.uniform(-1.5, 1.5, (k, 2)), deviations, shares, place)
    if kind == "ring":
        return oracles.ring(place, float(rng.uniform(0.2, 0.4)))
    if kind == "student":
        return oracles.student(place, float(rng.uniform(6, 12)))
    return getattr(oracles, kind)(place)


def _elliptic(family: Family, rng: Generator) -> Problem:
    """A law of any shape under any matrices."""
    law, name = plane_law(family, rng), family.attention
    m, S = law.mean, law.covariance
    A = rng.normal(size=(2, 2)) * log(rng, 0.1, 1.2) / np.linalg.norm(S, 2)
    V = float(rng.choice([-1, 1])) * (np.eye(2) + 0.3 * rng.normal(size=(2, 2)))
    second = S + np.outer(m, m) * (name == "linear")
    size = np.linalg.norm(V, 2) * np.linalg.norm(A, 2) * np.linalg.norm(second, 2)
    t = float(rng.uniform(0.2, 1.0) * min(0.5 / size, 1.5))
    t *= LASTING.get(name, 1.0)
    if name == "softmax" and law.name in COMPACT:
        t *= 3
    kappa = log(rng, 0.02, 0.5) * np.trace(S) / 2 / t if family.noisy else 0.0
    if name == "linear" or (law.name == "normal" and name != "sigmoid"):
        exact = lambda: lines.gaussian_moments(name, A, V, kappa, (m, S), t)
    else:
        exact = lambda: oracles.moments_by_tokens(law, name, A, V, t)
    gaussian = Law(law.density, m, S, 8.0)
    reach = _reach(family, gaussian, exact(), rng, least=LEAST.get(law.name, 4.5))
    return Problem(family, f"plane {law.name}", A, V, kappa, t, gaussian, reach, exact)


def _product(family: Family, rng: Generator) -> Problem:
    """Independent coordinates under diagonal matrices, which evolve separately."""
    line = Family(family.attention, "affine", 0, noisy=family.noisy)
    laws = line_law(line, rng), line_law(line, rng)
    s = np.array([law.variance for law in laws])
    m = np.array([law.mean for law in laws])
    A = rng.choice([-1, 1], 2) * np.array([log(rng, 0.1, 1.0) for _ in laws]) / s
    V = rng.choice([-1, 1], 2) * np.array([log(rng, 0.3, 2) for _ in laws])
    if family.noisy:  # exp(Axy) must not amplify rounding errors of Fourier modes
        A = -np.sign(V) * np.minimum(np.abs(A) * s, 0.4) / s
    parts = list(zip(laws, A, V, strict=True))
    t = min(duration(line, a, v, law, rng) for law, a, v in parts)
    kappa = log(rng, 0.02, 0.5) * float(np.min(s)) / t if family.noisy else 0.0
    ends = [moments_on_line(line, law, a, v, kappa, t) for law, a, v in parts]

    def exact() -> Moments:
        first, second = (end() for end in ends)
        means = np.concatenate([first[0], second[0]])
        return means, np.diag([first[1][0, 0], second[1][0, 0]])

    density = lambda x: laws[0].density(x[:, 0]) * laws[1].density(x[:, 1])
    gaussian = Law(density, m, np.diag(s), 8.0)
    least = max(LEAST.get(law.name, 4.5) for law in laws)
    reach = _reach(family, gaussian, exact(), rng, least=least)
    label = f"product {laws[0].name} {laws[1].name}"
    return Problem(
        family, label, np.diag(A), np.diag(V), kappa, t, gaussian, reach, exact
    )


def _reach(
    family: Family, law: Law, end: Moments, rng: Generator, *, least: float
) -> dict[str, Any]:
    """A box in standard deviations of the start, or around the start and the end."""
    if family.box != "fixed":
        width = float(rng.uniform(0.1, 0.2)) * family.cells
        return {"half_width": float(np.clip(width, least, 8))}
    margin, rows = float(rng.uniform(4.5, 7)), []
    for k, (m, e) in enumerate(zip(law.mean, end[0], strict=True)):
        s, end_deviation = np.sqrt(law.covariance[k, k]), np.sqrt(abs(end[1][k, k]))
        if not np.isfinite(e + end_deviation) or end_deviation > 8 * s:
            e, end_deviation = m, 1.3 * s
        low = min(m - margin * s, e - margin * end_deviation)
        rows.append(
            [float(low), float(max(m + margin * s, e + margin * end_deviation))]
        )
    return {"domain": rows}
