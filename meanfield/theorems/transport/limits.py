"""Entropic transport between Gaussians: the limit of the iterations."""

from scipy.linalg import eigvalsh

from meanfield.theorems._arrays import Array, columns, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap

from ._couplings import Pair, members, pairs, recursion, regression_matrices

EXACT = Slack(tolerance=1e-10, why="inverses of matrices of condition below 1e5")


@statement(
    "castin2025:lemma-A.5",
    source="Lemma A.5, appendix A",
    claim=r"$F_n \to F \succ 0$ and $G_n \to G \succ 0$, the solutions of $F = "
    r"\epsilon\Sigma^{-1} + A^\top G^{-1}A$, $G = \epsilon\Omega^{-1} + "
    r"AF^{-1}A^\top$.",
    hypotheses=r"$\Sigma, \Omega \succ 0$",
    remark="C25: the map contracts in the affine-invariant (Thompson) metric; the "
    "paper claims contraction in the operator norm, which need not hold.",
    control=("the limit is taken with ε/2 for ε", {"share": 0.5}, ("G⁻¹A…", "F⁻¹Aᵀ…")),
)
def limits(case: Case, *, share: float = 1.0) -> Checks:
    """Compares the library's slopes of E[y | x] and E[x | y] with G⁻¹A and F⁻¹Aᵀ.

    NumPy computes F and G by 3000 steps of the recursion. The Thompson distance from
    the library's G to the limit must be less after 3 half-steps than after 1, and less
    after 7 than after 3.
    """
    tame = pairs(case.rng("approach"), 2, 2, case.pick(4, 20))
    ratio = _approach(tame._replace(epsilon=tame.epsilon / 2))
    label = "ratio of successive Thompson distances, library"
    yield from _limits(case, share)
    yield compare(label, ratio, "<=", 1.0, tolerance=1e-9, why=STRICT)


@limits.register_misprint(
    "C25",
    claim=r"a full step $\varphi$ of (A.9) contracts in the operator norm, the bound "
    r"being read as $|D_M\varphi| \leq 1 / (1 + \epsilon^2 / (|A|^2|\Sigma||\Omega|)) "
    r"< 1$ on all iterates $M$",
    correction=r"the spectral radius of $D_M\varphi$ is below one, and the iterates "
    r"converge in the Thompson metric",
    counterexample="Q = diag(3, .1), K = diag(1/3, 10), Σ = I, Ω⁻¹ = [[1, −.99], "
    "[−.99, 1]], ε = 1, at M = F₀ = QᵀQ + εΣ⁻¹",
)
def _(_: Case) -> Counterexample:
    """Compares the iterates, and a numerical derivative, with both claims."""
    Q, K, I = np.diag([3, 0.1]), np.diag([1 / 3, 10.0]), np.eye(2)
    Omega = np.linalg.inv(np.array([[1, -0.99], [-0.99, 1]]))
    p = Pair(np.zeros(2), np.zeros(2), I, Omega, Q, K, np.array(1.0))
    D = _derivative(p, Q.T @ Q + I)
    bound = float(1 / (1 + 1 / np.linalg.norm(Omega, 2)))
    radius = float(np.max(np.abs(np.linalg.eigvals(D))))
    stack = Pair(*columns([p] * 4))
    limit = np.linalg.solve(recursion(p, 20000)[1], p.A)
    differences = Slack(tolerance=1e-7, why="central differences with h = 1e-5")
    norm = float(np.linalg.norm(D, 2))
    return Counterexample(
        (compare("|Dφ| at F₀", norm, "<=", bound, **differences),),
        (
            compare("spectral radius at F₀", radius, "<=", 1.0, **differences),
            compare("Thompson ratio", _approach(stack), "<=", 1, why=STRICT),
            gap("limit, library", regression_matrices(stack)[0], limit, **EXACT),
        ),
    )


def _limits(case: Case, share: float) -> Checks:
    """Compares the library's limit with the recursion at bandwidth `share` · ε."""
    for d, k in ((2, 2), (3, 2)):
        stack = pairs(case.rng(f"d={d}"), d, k, case.pick(4, 20))
        scaled_stack = stack._replace(epsilon=share * stack.epsilon)
        F, G = columns(recursion(p, 3000) for p in members(scaled_stack))
        limit = np.linalg.solve(G, stack.A)
        mirror = np.linalg.solve(F, np.swapaxes(stack.A, 1, 2))
        yield gap(f"G⁻¹A, library, d = {d}", regression_matrices(stack), limit, **EXACT)
        actual = regression_matrices(stack.mirror)
        yield gap(f"F⁻¹Aᵀ, library, d = {d}", actual, mirror, **EXACT)


def _approach(stack: Pair) -> float:
    """Largest ratio of successive distances of the library's iterates to the limit.

    Thompson's distance is the largest |log| of the eigenvalues of $H^{-1}G$.
    """
    matrices = [regression_matrices(stack, iterations=n) for n in (1, 3, 7)]
    worst = 0.0
    for i, p in enumerate(members(stack)):
        limit = recursion(p, 3000)[1]
        iterates = [p.A @ np.linalg.inv(matrix[i]) for matrix in matrices]
        far = [np.max(np.abs(np.log(eigvalsh((G + G.T) / 2, limit)))) for G in iterates]
        worst = max(worst, far[1] / far[0], far[2] / far[1])
    return float(worst)


STRICT = "the distance shrinks strictly; rounding of eigenvalues"


def _derivative(p: Pair, M: Array) -> Array:
    r"""Derivative of one full step $\varphi$ at `M`, by central differences."""
    step = lambda F: p.half_step(p.mirror.half_step(F))
    h, n = 1e-5, M.size
    units = np.eye(n).reshape(n, *M.shape)
    columns = [(step(M + h * E) - step(M - h * E)).ravel() / (2 * h) for E in units]
    return np.array(columns).T
