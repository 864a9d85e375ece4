"""Entropic transport of a Gaussian with itself: conditional laws."""

from typing import NamedTuple

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import gap

from ._couplings import SOLVED, Pair, closed_C, on_nodes, recursion


@statement(
    "castin2025:app-C.1-4.14",
    source="Proof of Lemma 4.14, appendix C.1",
    claim=r"With $\Omega = \Sigma$: $A^\top G^{-1}A = F - \epsilon\Sigma^{-1}$, and "
    r"$\kappa(x, \cdot)\mu = N(\alpha + A^{-\top}\Sigma^{-1}C_G(x - \alpha), \epsilon "
    r"G^{-1})$.",
    hypotheses=r"$\Sigma \succ 0$, $A$ invertible",
    control=(
        "ε stands for ε/2 in C, and 2ε for ε beside Σ⁻¹",
        {"half": 1.0},
        ("E[y | x]", "AᵀG⁻¹A"),
    ),
)
def conditioned(case: Case, *, half: float = 0.5) -> Checks:
    """Rows and columns of the library's plan of a Gaussian with itself, on its nodes.

    At nodes within two deviations: conditional means against the closed form by SciPy's
    root; conditional covariances, which must not depend on x, give G and F; third
    moments vanish; G is the limit of the recursion in NumPy.
    """
    # `half` is the share of ε that stands in C.
    p, x, rows, F, G = _conditioned(case)
    slope = np.linalg.solve(p.A.T, np.linalg.solve(p.Sigma, closed_C(p.mirrored, half)))
    mean = p.alpha + (x - p.alpha) @ slope.T
    left = p.A.T @ np.linalg.solve(G, p.A)
    expected = F - 2 * half * p.epsilon * np.linalg.inv(p.Sigma)
    yield gap("E[y | x]", rows.mean, mean, **SOLVED)
    yield gap("AᵀG⁻¹A", left, expected, scale=_top(F), **SOLVED)
    if half == 0.5:
        same = np.broadcast_to(rows.covariance[:1], rows.covariance.shape)
        limit, label = recursion(p, 2000)[1], "third moments of κ(x, ·)"
        yield gap("Cov[y | x] over x", rows.covariance, same, **SOLVED)
        yield gap(label, rows.skewness, 0.0, scale=1.0, **SOLVED)
        yield gap("εCov[y | x]⁻¹ = G of (A.9)", G, limit, **SOLVED)


def _conditioned(case: Case) -> tuple[Pair, Array, "Conditionals", Array, Array]:
    """A Gaussian with itself, central nodes, their rows of the library's plan; F and G.

    These are from the conditional covariances.
    """
    found, p, central = on_nodes(case.rng("self"))
    rows = _conditionals(found.x, found.plan[central])
    columns = _conditionals(found.x, found.plan.T[central])
    F, G = (p.epsilon * np.linalg.inv(M.covariance[0]) for M in (columns, rows))
    return p, found.x[central], rows, F, G


@conditioned.misprinted(
    "C13",
    printed=r"$G = \epsilon\Sigma^{-1} + A^\top F^{-1}A$, and "
    r"$A^\top G^{-1}A = F^{-1} - \epsilon\Sigma^{-1}$",
    corrected=r"$G = \epsilon\Sigma^{-1} + AF^{-1}A^\top$, and "
    r"$A^\top G^{-1}A = F - \epsilon\Sigma^{-1}$",
    counterexample="a generic Gaussian in the plane with itself, A not symmetric",
)
def _(case: Case) -> Counterexample:
    p, _, _, F, G = _conditioned(case)
    A, base = p.A, p.epsilon * np.linalg.inv(p.Sigma)
    left = A.T @ np.linalg.solve(G, A)
    return Counterexample(
        (
            gap("G", G, base + A.T @ np.linalg.solve(F, A), **SOLVED),
            gap("AᵀG⁻¹A", left, np.linalg.inv(F) - base, scale=_top(F), **SOLVED),
        ),
        (
            gap("G", G, base + A @ np.linalg.solve(F, A.T), **SOLVED),
            gap("AᵀG⁻¹A", left, F - base, scale=_top(F), **SOLVED),
        ),
    )


class Conditionals(NamedTuple):
    """Of the library's plan, at central nodes: means, covariances, skewness."""

    mean: Array
    covariance: Array
    skewness: float


def _conditionals(x: Array, rows: Array) -> Conditionals:
    P = rows / rows.sum(axis=1, keepdims=True)
    mean = P @ x
    gaps = x[None, :, :] - mean[:, None, :]
    covariance = np.einsum("ij,ija,ijb->iab", P, gaps, gaps)
    third = np.einsum("ij,ija,ijb,ijc->iabc", P, gaps, gaps, gaps)
    size = np.max(np.abs(covariance)) ** 1.5
    return Conditionals(mean, covariance, float(np.max(np.abs(third)) / size))


def _top(F: Array) -> float:
    """The size of what is subtracted: differences are known relative to it."""
    return float(np.max(np.abs(F)))
