"""Entropic transport of a Gaussian with itself: conditional laws."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import gap

from ._couplings import SOLVER_SLACK, Pair, closed_form_C, library_plan, recursion


@statement(
    "castin2025:app-C.1-4.14",
    source="Proof of Lemma 4.14, appendix C.1",
    claim=r"With $\Omega = \Sigma$: $A^\top G^{-1}A = F - \epsilon\Sigma^{-1}$, and "
    r"$\kappa(x, \cdot)\mu = N(\alpha + A^{-\top}\Sigma^{-1}C_G(x - \alpha), \epsilon "
    r"G^{-1})$.",
    hypotheses=r"$\Sigma \succ 0$, $A$ invertible",
    control=(
        "ε replaces ε/2 in C, and 2ε replaces ε in the term with Σ⁻¹",
        {"half": 1.0},
        ("E[y | x]", "AᵀG⁻¹A"),
    ),
)
def conditional_laws(case: Case, *, half: float = 0.5) -> Checks:
    """Compares conditional moments of the library's plan on nodes with closed forms.

    The plan couples a Gaussian with itself. At nodes within two standard deviations,
    conditional means are compared with the closed form, which uses SciPy's matrix root.
    Conditional covariances, which give G and F, must not depend on x, and third moments
    must vanish. G must be the limit of the recursion that NumPy computes.
    """
    # The control changes `half`, which multiplies ε in the closed form of C.
    p, x, (means, covariances, skewness), F, G = _conditional_data(case)
    C = closed_form_C(p.mirror, half)
    matrix = np.linalg.solve(p.A.T, np.linalg.solve(p.Sigma, C))
    mean = p.alpha + (x - p.alpha) @ matrix.T
    left = p.A.T @ np.linalg.solve(G, p.A)
    expected = F - 2 * half * p.epsilon * np.linalg.inv(p.Sigma)
    yield gap("E[y | x]", means, mean, **SOLVER_SLACK)
    yield gap("AᵀG⁻¹A", left, expected, scale=_top(F), **SOLVER_SLACK)
    if half == 0.5:
        constant = np.broadcast_to(covariances[:1], covariances.shape)
        limit, label = recursion(p, 2000)[1], "third moments of κ(x, ·)"
        yield gap("Cov[y | x] over x", covariances, constant, **SOLVER_SLACK)
        yield gap(label, skewness, 0.0, scale=1.0, **SOLVER_SLACK)
        yield gap("εCov[y | x]⁻¹ = G of (A.9)", G, limit, **SOLVER_SLACK)


def _conditional_data(case: Case) -> tuple[Pair, Array, tuple, Array, Array]:
    """Data of a Gaussian coupled with itself: pair, nodes, conditional laws, F and G.

    The nodes are central, and each has a conditional law.
    F and G come from the conditional covariances of the library's plan.
    """
    nodes, p, central = library_plan(case.rng("self"))
    rows, columns = (
        _conditionals(nodes.x, plan[central]) for plan in (nodes.plan, nodes.plan.T)
    )
    F, G = (p.epsilon * np.linalg.inv(laws[1][0]) for laws in (columns, rows))
    return p, nodes.x[central], rows, F, G


@conditional_laws.register_misprint(
    "C13",
    claim=r"$G = \epsilon\Sigma^{-1} + A^\top F^{-1}A$, and "
    r"$A^\top G^{-1}A = F^{-1} - \epsilon\Sigma^{-1}$",
    correction=r"$G = \epsilon\Sigma^{-1} + AF^{-1}A^\top$, and "
    r"$A^\top G^{-1}A = F - \epsilon\Sigma^{-1}$",
    counterexample="a generic Gaussian in the plane with itself, A not symmetric",
)
def _(case: Case) -> Counterexample:
    p, _, _, F, G = _conditional_data(case)
    A, base = p.A, p.epsilon * np.linalg.inv(p.Sigma)
    left = A.T @ np.linalg.solve(G, A)
    return Counterexample(
        (
            gap("G", G, base + A.T @ np.linalg.solve(F, A), **SOLVER_SLACK),
            gap("AᵀG⁻¹A", left, np.linalg.inv(F) - base, scale=_top(F), **SOLVER_SLACK),
        ),
        (
            gap("G", G, p.mirror.half_step(F), **SOLVER_SLACK),
            gap("AᵀG⁻¹A", left, F - base, scale=_top(F), **SOLVER_SLACK),
        ),
    )


def _conditionals(x: Array, rows: Array) -> tuple[Array, Array, float]:
    """Means, covariances and largest skewness of the conditional laws of a plan."""
    P = rows / rows.sum(axis=1, keepdims=True)
    mean = P @ x
    gaps = x[None, :, :] - mean[:, None, :]
    covariance = np.einsum("ij,ija,ijb->iab", P, gaps, gaps)
    third = np.einsum("ij,ija,ijb,ijc->iabc", P, gaps, gaps, gaps)
    size = np.max(np.abs(covariance)) ** 1.5
    return mean, covariance, float(np.max(np.abs(third)) / size)


def _top(F: Array) -> float:
    """Largest entry of `F`; differences from `F` have errors of this scale."""
    return float(np.max(np.abs(F)))
