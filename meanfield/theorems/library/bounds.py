"""Radii of supports, and growth rates of distances, in the bounds of Theorem 3.1."""

import itertools
from typing import TypeVar

from meanfield.theorems._arrays import Array, JaxArray, Unary, np

from .particles import EPSILON, FRAMES, KINDS, Members

TIMES = np.linspace(0, 1, 41)

Number = TypeVar("Number", Array, JaxArray)


def sample_parameter(name: str, values: Array, ts: Array) -> Array:
    """Values of one run's parameter, `(nodes, heads, d, d)`, at the times `ts`."""
    kind, middles = KINDS[name], np.clip(ts, 1e-9, 1 - 1e-9)
    pairs = zip(ts, middles, strict=True)
    samples = [kind.schedule.value_at(values, t, middle) for t, middle in pairs]
    return np.stack(samples)[:, : kind.heads]


def operator_norm(matrices: Array) -> Array:
    """Largest singular value of each matrix of a stack."""
    return np.linalg.norm(matrices, 2, axis=(-2, -1))


def radii(name: str, members: Members, m: int, size: Unary = operator_norm) -> Array:
    r"""$R(t) = R_0\exp\int_0^t\sum_h|V^{(h)}|$ at the frames; `size` gives $|V|$."""
    kind = KINDS[name]
    cuts = np.union1d(FRAMES, kind.schedule.kinks)

    def total_size(ts: Array) -> Array:
        V = sample_parameter(name, members.V[m], ts)
        return np.sum(size(kind.value_scale * V), axis=1)

    integrals = cumulative_integral(total_size, cuts)[np.isin(cuts, FRAMES)]
    start = np.max(np.linalg.norm(members.x[m], axis=1))
    return start * np.exp(integrals)


def cumulative_integral(integrand: Unary, cuts: Array) -> Array:
    """Integrals from the first cut to each cut of a function that is smooth between.

    The rule has 12 Gauss–Legendre nodes on each piece.
    """
    nodes, weights = np.polynomial.legendre.leggauss(12)
    integrals = [0.0]
    for a, b in itertools.pairwise(cuts):
        values = integrand((a + b) / 2 + (b - a) / 2 * nodes)
        integrals.append(integrals[-1] + float(weights @ values) * (b - a) / 2)
    return np.array(integrals)


def rates(name: str, members: Members, m: int, R: float) -> tuple[float, float]:
    """Largest $C_1(R)$ and $C_2R^2$ of a run up to t = 1, summed over heads."""
    Q, K, V = (sample_parameter(name, part[m], TIMES) for part in members[:3])
    size = operator_norm
    v = size(KINDS[name].value_scale * V)
    a = size(np.swapaxes(K, -1, -2) @ Q) / EPSILON * R**2
    q, k = (size(part) * R / np.sqrt(EPSILON) for part in (Q, K))
    first, second = constants(name, v, a, q, k)
    return float(np.max(first.sum(1))), float(np.max(second.sum(1)))


def constants(
    name: str, v: Number, a: Number, q: Number, k: Number
) -> tuple[Number, Number]:
    r"""$C_1(R)$ and $C_2R^2$ of one head of softmax, L2, Sinkhorn or sigmoid.

    Multi-head attention has heads of softmax.

    The constants come from castin2025, Lemmas B.2, B.3, B.6 and B.7, corrected by
    ERRATA C26 and C27. For Sinkhorn attention the constant is our own; it uses that
    $2a/(1 - \tanh a) = a(1 + e^{2a})$. The arguments are $v = \|V\|$, $a = \|A\|R^2$,
    $q = \|Q\|R$ and $k = \|K\|R$, for $\epsilon = 1$.
    """
    e = lambda s: np.e**s
    law = "softmax" if name == "multi-head" else name
    return {
        "softmax": (v * (1 + 2 * a) * e(2 * a), v * a),
        "L2": (v * (1 + 4 * (a + k**2)) * e((q + k) ** 2), 2 * v * a),
        "Sinkhorn": (v * (1 + 4 * a + a * (1 + e(2 * a))) * e(4 * a), v * a),
        "sigmoid": (v * (1 + a / 4), v * a / 4),
    }[law]
