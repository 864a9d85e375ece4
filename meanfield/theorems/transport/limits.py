"""Entropic transport between Gaussians: the limit of the iterations."""

from scipy.linalg import eigvalsh

from meanfield.theorems._arrays import Array, columns, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, gap

from ._couplings import Pair, each, pairs, recursion, slopes

EXACT = Slack(tolerance=1e-10, why="inverses of matrices of condition below 1e5")


@statement(
    "castin2025:lemma-A.5",
    source="Lemma A.5, appendix A",
    claim=r"$F_n \to F \succ 0$ and $G_n \to G \succ 0$, the solutions of $F = "
    r"\epsilon\Sigma^{-1} + A^\top G^{-1}A$, $G = \epsilon\Omega^{-1} + "
    r"AF^{-1}A^\top$.",
    hypotheses=r"$\Sigma, \Omega \succ 0$",
    remark="C25: the map contracts in the affine-invariant (Thompson) metric; the "
    "print claims it for the operator norm, where it need not.",
    control=("the limit is taken with ε/2 for ε", {"share": 0.5}, ("G⁻¹A…", "F⁻¹Aᵀ…")),
)
def limits(case: Case, *, share: float = 1.0) -> Checks:
    """The library's converged slopes against G⁻¹A and F⁻¹Aᵀ of 3000 steps in NumPy.

    And the library after 1, 3 and 7 half-steps: the Thompson distance of its G to the
    limit must fall each time.
    """
    tame = pairs(case.rng("approach"), 2, 2, case.pick(4, 20))
    ratio = _approach(tame._replace(epsilon=tame.epsilon / 2))
    label = "ratio of successive Thompson distances, library"
    yield from _limits(case, share)
    yield bounded(label, ratio, "<=", 1.0, tolerance=1e-9, why=STRICT)


@limits.misprinted(
    "C25",
    printed=r"a full step $\varphi$ of (A.9) contracts in the operator norm, the bound "
    r"being read as $|D_M\varphi| \leq 1 / (1 + \epsilon^2 / (|A|^2|\Sigma||\Omega|)) "
    r"< 1$ on all iterates $M$",
    corrected=r"the spectral radius of $D_M\varphi$ is below one, and the iterates "
    r"converge in the Thompson metric",
    counterexample="Q = diag(3, .1), K = diag(1/3, 10), Σ = I, Ω⁻¹ = [[1, −.99], "
    "[−.99, 1]], ε = 1, at M = F₀ = QᵀQ + εΣ⁻¹",
)
def _(case: Case) -> Counterexample:
    """The derivative by finite differences; the library's iterates on the same data."""
    del case
    Q, K, I = np.diag([3, 0.1]), np.diag([1 / 3, 10.0]), np.eye(2)
    Omega = np.linalg.inv(np.array([[1, -0.99], [-0.99, 1]]))
    p = Pair(np.zeros(2), np.zeros(2), I, Omega, Q, K, np.array(1.0))
    D = _derivative(p, Q.T @ Q + I)
    allowed = float(1 / (1 + 1 / np.linalg.norm(Omega, 2)))
    radius = float(np.max(np.abs(np.linalg.eigvals(D))))
    stack = Pair(*columns([p] * 4))
    limit = np.linalg.solve(recursion(p, 20000)[1], p.A)
    differences = Slack(tolerance=1e-7, why="central differences with h = 1e-5")
    norm = float(np.linalg.norm(D, 2))
    return Counterexample(
        (bounded("|Dφ| at F₀", norm, "<=", allowed, **differences),),
        (
            bounded("spectral radius at F₀", radius, "<=", 1.0, **differences),
            bounded("Thompson ratio", _approach(stack), "<=", 1, why=STRICT),
            gap("limit, library", slopes(stack)[0], limit, **EXACT),
        ),
    )


def _thompson(G: Array, H: Array) -> float:
    """The largest |log| of the eigenvalues of $H^{-1}G$."""
    return float(np.max(np.abs(np.log(eigvalsh((G + G.T) / 2, H)))))


def _limits(case: Case, share: float) -> Checks:
    """The library's limit against the recursion's, the share of ε given."""
    for d, k in ((2, 2), (3, 2)):
        stack = pairs(case.rng(f"d={d}"), d, k, case.pick(4, 20))
        other = stack._replace(epsilon=share * stack.epsilon)
        F, G = columns(recursion(p, 3000) for p in each(other))
        limit = np.linalg.solve(G, stack.A)
        mirror = np.linalg.solve(F, np.swapaxes(stack.A, 1, 2))
        yield gap(f"G⁻¹A, library, d = {d}", slopes(stack), limit, **EXACT)
        yield gap(f"F⁻¹Aᵀ, library, d = {d}", slopes(stack.mirrored), mirror, **EXACT)


def _approach(stack: Pair) -> float:
    """The largest ratio of successive distances to the limit, by the library."""
    found = [slopes(stack, iterations=n) for n in (1, 3, 7)]
    worst = 0.0
    for i, p in enumerate(each(stack)):
        limit = recursion(p, 3000)[1]
        far = [_thompson(p.A @ np.linalg.inv(slope[i]), limit) for slope in found]
        worst = max(worst, far[1] / far[0], far[2] / far[1])
    return worst


STRICT = "the distance shrinks strictly; rounding of eigenvalues"


def _derivative(p: Pair, M: Array) -> Array:
    r"""Of one full step $\varphi$ at `M`, on matrices, by central differences."""

    def step(F: Array) -> Array:
        G = p.epsilon * np.linalg.inv(p.Omega) + p.A @ np.linalg.solve(F, p.A.T)
        return p.epsilon * np.linalg.inv(p.Sigma) + p.A.T @ np.linalg.solve(G, p.A)

    h, n = 1e-5, M.size
    units = np.eye(n).reshape(n, *M.shape)
    columns = [(step(M + h * E) - step(M - h * E)).ravel() / (2 * h) for E in units]
    return np.array(columns).T
