"""Entropic transport between Gaussians: the optimal plan."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, columns, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap

from . import _couplings as couplings

REACH = 0.25
ORDER = 16
QUADRATURE_SLACK = Slack(
    tolerance=1e-9,
    why="Gauss–Hermite error of couplings with |QY|², |KZ|² ≤ ε/4, 16 nodes an axis: "
    "below 1e-12 by self-convergence; Sinkhorn to 1e-14",
)
View = Callable[[couplings.Pair], couplings.Pair]


@statement(
    "castin2025:thm-A.3",
    source="Theorem A.3, appendix A",
    claim=r"The entropic plan of $N(\alpha, \Sigma)$ and $N(\beta, \Omega)$ is "
    r"Gaussian, with cross-covariance $CA^{-\top}$ of y and x, "
    r"$C = \Omega^{1/2}(\Omega^{1/2}A\Sigma A^\top\Omega^{1/2} + "
    r"\frac{\epsilon^2}{4}I)^{1/2}\Omega^{-1/2} - \frac{\epsilon}{2}I$.",
    hypotheses=r"$\Sigma, \Omega \succ 0$ (C32), $A = K^\top Q$ invertible",
    control=(
        "A is transposed in C",
        {"view": lambda pair: pair._replace(Q=pair.K, K=pair.Q)},
    ),
)
def optimal_plan(case: Case, *, view: View = lambda pair: pair) -> Checks:
    """Compares the formula of Theorem A.3 with the library and with plans on nodes.

    The formula uses SciPy's matrix root. The library couples the product of the two
    Gaussians with itself; queries depend on the first factor, keys on the second. The
    slope of E[y | x] is compared. NumPy computes a plan between Gauss–Hermite nodes by
    Sinkhorn iterations in the log domain, and its covariance is compared. An
    exponential moment, which distinguishes a Gaussian from other plans with the same
    covariances, is compared too.
    """
    # The formula is evaluated for `view(p)`, which differs from `p` in the control.
    cross = lambda p: couplings.closed_form_C(view(p), 0.5) @ np.linalg.inv(p.A).T
    for d, k in ((2, 2), (3, 4)):
        stack = couplings.pairs(case.rng(f"d={d}"), d, k, case.pick(4, 20))
        members = couplings.members(stack)
        T = np.array([cross(p) @ np.linalg.inv(p.Sigma) for p in members])
        actual, exact = couplings.regression_matrices(stack), couplings.rounding(stack)
        yield gap(f"slope of E[y | x], d = {d}", actual, T, **exact)
    p = _small(case)
    covariance = np.block([[p.Sigma, cross(p).T], [cross(p), p.Omega]])
    nodes = couplings.node_plan(p, None, ORDER)
    label = "covariance of the plan, nodes"
    yield gap(label, nodes.covariance, covariance, **QUADRATURE_SLACK)
    # The plan on nodes must have the exponential moment of a Gaussian.
    u, v = np.array([0.4, -0.3]), np.array([0.2, 0.5])
    left = np.exp(nodes.x @ u) @ nodes.plan @ np.exp(nodes.y @ v)
    exponent = np.concatenate([u, v])
    expected = np.exp(p.alpha @ u + p.beta @ v + exponent @ covariance @ exponent / 2)
    yield gap("an exponential moment, nodes", left, expected, **QUADRATURE_SLACK)


def _small(case: Case) -> couplings.Pair:
    """Random pair of Gaussians for whose plan few nodes suffice."""
    stack = couplings.pairs(case.rng("nodes"), 2, 3, 1, reach=REACH)
    return next(couplings.members(stack))


@statement(
    "castin2025:lemma-A.6",
    source="Lemma A.6, appendix A",
    claim=r"$\mathrm{Cov}(\pi^*) = \epsilon\,H^{-1}$ with $H$ of blocks $F$, "
    r"$-A^\top$, $-A$, $G$, the limits of the recursion (A.9).",
    hypotheses=r"$\Sigma, \Omega \succ 0$; any rank of $A$",
    control=("the off-diagonal blocks lose their sign", {"sign": 1.0}),
)
def plan_covariance(case: Case, *, sign: float = -1.0) -> Checks:
    """Compares the covariance of Lemma A.6 with the covariances of three plans.

    NumPy computes F and G by the recursion. The first plan is the library's for two
    Gaussians in d = 3, with A of rank two; its cross-covariance is compared. The second
    is a plan between nodes, from Sinkhorn iterations by NumPy. The third is the
    library's plan of a Gaussian with itself, on nodes.
    """

    # The control changes `sign`, which multiplies the off-diagonal blocks.
    def covariance(p: couplings.Pair) -> Array:
        F, G = couplings.recursion(p, 2000)
        return p.epsilon * np.linalg.inv(np.block([[F, sign * p.A.T], [sign * p.A, G]]))

    stack = couplings.pairs(case.rng("pairs"), 3, 2, case.pick(4, 20))
    full = np.array([covariance(p) for p in couplings.members(stack)])
    cross = couplings.regression_matrices(stack) @ stack.Sigma
    nodes, pair, _ = couplings.library_plan(case.rng("self"))
    p = _small(case)
    actual = couplings.node_plan(p, None, ORDER).covariance
    label = "Cov(y, x), library, d = 3, A of rank two"
    why = "inverses of matrices of condition below 1e5 in float64"
    yield gap(label, cross, full[:, 3:, :3], tolerance=1e-10, why=why)
    yield gap("Cov(π), nodes", actual, covariance(p), **QUADRATURE_SLACK)
    expected = covariance(pair)
    yield gap("Cov(π), library", nodes.covariance, expected, **couplings.SOLVER_SLACK)


@statement(
    "castin2025:lemma-A.7",
    source="Lemma A.7, appendix A",
    claim=r"$C_F = \Omega AF^{-1}A^\top$ and $C_G = \Sigma A^\top G^{-1}A$ solve "
    r"$C_F^2 + \epsilon C_F = \Omega A\Sigma A^\top$ and $C_G^2 + \epsilon C_G = "
    r"\Sigma A^\top\Omega A$; $C_F = \Omega^{1/2}(\Omega^{1/2}A\Sigma "
    r"A^\top\Omega^{1/2} + \frac{\epsilon^2}{4}I)^{1/2}\Omega^{-1/2} - "
    r"\frac{\epsilon}{2}I$, and $C_G$ likewise.",
    hypotheses=r"$\Sigma, \Omega \succ 0$",
    control=(
        "ε replaces ε/2 in the closed form, and 2ε replaces ε in the equation",
        {"half": 1.0},
    ),
)
def closed_forms(case: Case, *, half: float = 0.5) -> Checks:
    """Compares $C_F$ and $C_G$ from the library's slopes with their closed forms.

    The library gives the slopes of E[x | y] and E[y | x]. The closed forms use SciPy's
    matrix root. The quadratic equations are tested, and $C_F$ from the recursion in
    NumPy is compared too.
    """
    # The control changes `half`, the multiple of ε in the closed forms.
    stack = couplings.pairs(case.rng("pairs"), 3, 4, case.pick(4, 20))
    mirror = stack.mirror
    exact = couplings.rounding(stack)
    for name, p in (("C_F", stack), ("C_G", mirror)):
        # The slope F⁻¹Aᵀ of E[x | y] is the slope of E[y | x] for the mirrored pair.
        actual = p.Omega @ p.A @ couplings.regression_matrices(p.mirror)
        square = p.Omega @ p.A @ p.Sigma @ np.swapaxes(p.A, 1, 2)
        eps = 2 * half * p.epsilon[:, None, None]
        members = couplings.members(p)
        expected = [couplings.closed_form_C(pair, half) for pair in members]
        yield gap(f"{name}, library", actual, expected, **exact)
        left = actual @ actual + eps * actual
        yield gap(f"{name}² + ε{name}, library", left, square, **exact)
    F, _ = columns(couplings.recursion(p, 2000) for p in couplings.members(stack))
    C = stack.Omega @ stack.A @ np.linalg.solve(F, np.swapaxes(stack.A, 1, 2))
    expected = [couplings.closed_form_C(p, half) for p in couplings.members(stack)]
    yield gap("C_F, recursion", C, expected, **exact)
