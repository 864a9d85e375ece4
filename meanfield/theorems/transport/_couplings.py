r"""Entropic couplings of two Gaussians, in NumPy and by the library.

The library couples a measure with itself. To couple $\mu$ with $\nu$, it is applied to
the product measure $\mu\otimes\nu$ of pairs $z = (x, y)$, with queries $Qx$ and keys
$Ky$. This works because the potentials depend on $x$ alone and on $y$ alone.
"""

from collections.abc import Iterator
from typing import NamedTuple

from scipy.linalg import sqrtm

from meanfield.attention import plans
from meanfield.measures.sampling import gauss_hermite
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, np
from meanfield.theorems._protocols import Slack
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.theorems.library.ensembles import scale_to_reach
from meanfield.theorems.reference import alternation
from meanfield.theorems.reference.measures import hermite_nodes

Potentials = tuple[Array, Array]


class Pair(NamedTuple):
    r"""Two Gaussians with attention parameters, or a stack of such pairs.

    The Gaussians are $N(\alpha, \Sigma)$ and $N(\beta, \Omega)$.
    """

    alpha: Array
    beta: Array
    Sigma: Array
    Omega: Array
    Q: Array
    K: Array
    epsilon: Array

    @property
    def A(self) -> Array:
        r"""$K^\top Q$."""
        return np.swapaxes(self.K, -1, -2) @ self.Q

    @property
    def mirror(self) -> "Pair":
        """The pair with its Gaussians exchanged, and its queries and keys exchanged."""
        alpha, beta, Sigma, Omega, Q, K, epsilon = self
        return Pair(beta, alpha, Omega, Sigma, K, Q, epsilon)

    def half_step(self, G: Array) -> Array:
        r"""$F = \epsilon\Sigma^{-1} + A^\top G^{-1}A$; the mirrored pair gives $G$."""
        base = self.epsilon * np.linalg.inv(self.Sigma)
        return base + self.A.T @ np.linalg.solve(G, self.A)

    @property
    def self_pair(self) -> "Pair":
        """The pair of the first Gaussian with itself."""
        return self._replace(beta=self.alpha, Omega=self.Sigma)

    @property
    def first(self) -> Member:
        """The first Gaussian with the attention parameters, and with V = I."""
        factor, identity = np.linalg.cholesky(self.Sigma), np.eye(len(self.alpha))
        return Member(self.alpha, factor, self.Q, self.K, identity, self.epsilon)


def pairs(rng: Rng, d: int, k: int, count: int, *, reach: float = np.inf) -> Pair:
    r"""Random pairs whose `A` is well conditioned.

    The numbers $\|QY\|^2$, $\|KZ\|^2$, $|Q\alpha|^2$ and $|K\beta|^2$ are at most about
    `reach` · ε.
    """
    first = lib.ensemble(rng, (d, k, d), count, reach=reach)
    second = lib.ensemble(rng, (d, k, d), count, reach=reach)
    second = second._replace(epsilon=first.epsilon)
    tame = np.eye(k, d) * np.minimum(1, np.sqrt(reach)) / 2
    Q = scale_to_reach(first.Q + tame, first, reach)
    K = scale_to_reach(second.K + tame, second, reach)
    moments = (first.mean, second.mean, first.covariance, second.covariance)
    return Pair(*moments, Q, K, first.epsilon)


def members(stack: Pair) -> Iterator[Pair]:
    """Iterates over the members of a stack."""
    return (Pair(*parts) for parts in zip(*stack, strict=True))


def product(stack: Pair) -> Member:
    """Product measures, with queries of the first factor and keys of the second."""
    n, d = stack.alpha.shape
    zero, zero_scores = np.zeros((n, d, d)), np.zeros_like(stack.Q)
    Y, Z = np.linalg.cholesky(stack.Sigma), np.linalg.cholesky(stack.Omega)
    mean = np.concatenate([stack.alpha, stack.beta], axis=1)
    factor = np.block([[Y, zero], [zero, Z]])
    Q, K = (
        np.concatenate(M, axis=2)
        for M in ([stack.Q, zero_scores], [zero_scores, stack.K])
    )
    identity = np.broadcast_to(np.eye(2 * d), (n, 2 * d, 2 * d))
    return Member(mean, factor, Q, K, identity, stack.epsilon)


def regression_matrices(stack: Pair, **options: int | None) -> Array:
    r"""The library's matrices $T$ in $E[y | x] = \beta + T(x - \alpha)$.

    These matrices are $T = \mathrm{Cov}(y, x)\Sigma^{-1} = G^{-1}A$.
    """
    d = stack.alpha.shape[1]
    linear = np.asarray(lib.rates("sinkhorn", product(stack), None, **options).linear)
    return linear[:, d:, :d] * stack.epsilon[:, None, None]


def recursion(p: Pair, steps: int) -> tuple[Array, Array]:
    r"""Matrices $F$, $G$ of (A.9), `steps` steps after $G_0 = \epsilon\Omega^{-1}$."""
    mirror = p.mirror
    F, G = (p.epsilon * np.linalg.inv(S) for S in (p.Sigma, p.Omega))
    for _ in range(steps):
        F, old = p.half_step(G), G
        G = mirror.half_step(F)
        if np.max(np.abs(G - old)) <= 2e-16 * np.max(np.abs(G)):
            break  # converged up to rounding
    return F, G


def closed_form_C(p: Pair, half: float) -> Array:
    r"""The matrix $C$ of Theorem A.3 with $h$ = `half` · ε, by SciPy's matrix root.

    It is $C = \Omega^{1/2}(\Omega^{1/2}A\Sigma A^\top\Omega^{1/2} +
    h^2)^{1/2}\Omega^{-1/2} - h$; the theorem has $h = \epsilon/2$.
    """
    root, h = np.real(sqrtm(p.Omega)), half * p.epsilon
    identity = np.eye(len(root))
    inner = root @ p.A @ p.Sigma @ p.A.T @ root + h**2 * identity
    return root @ np.real(sqrtm(inner)) @ np.linalg.inv(root) - h * identity


class Nodes(NamedTuple):
    """Two clouds of Gauss–Hermite nodes and a plan between them."""

    x: Array
    y: Array
    plan: Array

    @property
    def regression_matrix(self) -> Array:
        """Linear part of E[y | x] under the plan, by weighted least squares."""
        w = self.plan.sum(axis=1)
        x = self.x - w @ self.x
        y = self.plan @ self.y / w[:, None]
        gram = (x * w[:, None]).T @ x
        return np.linalg.solve(gram, (x * w[:, None]).T @ y).T

    @property
    def covariance(self) -> Array:
        """Joint covariance of x and y under the plan, as a block matrix."""
        w, v = self.plan.sum(axis=1), self.plan.sum(axis=0)
        x, y = self.x - w @ self.x, self.y - v @ self.y
        cross = x.T @ self.plan @ y
        first, last = (x * w[:, None]).T @ x, (y * v[:, None]).T @ y
        return np.block([[first, cross], [cross.T, last]])


def node_plan(p: Pair, full_steps: int | None, nodes: int = 16) -> Nodes:
    """Computes Sinkhorn's plan between nodes in NumPy.

    The iteration starts from g = 0, and its last half-step normalises rows. It takes
    `full_steps` full steps before that; if this is `None`, it runs to convergence.
    """
    x, w = hermite_nodes(p.alpha, np.linalg.cholesky(p.Sigma), nodes)
    y, v = hermite_nodes(p.beta, np.linalg.cholesky(p.Omega), nodes)
    scores = (x @ p.Q.T) @ (y @ p.K.T).T / p.epsilon
    f, g = solve_potentials(alternation.potentials(scores, w, v), full_steps)
    return Nodes(x, y, np.exp(scores + f[:, None] + g[None, :]) * np.outer(w, v))


def solve_potentials(
    states: Iterator[Potentials], full_steps: int | None
) -> Potentials:
    """Potentials after `full_steps` steps, or at convergence; `f` is updated last."""
    if full_steps is not None:
        return alternation.nth_state(states, 2 * full_steps + 1)
    change = lambda old, new: np.ptp(new[1] - old[1])
    alternation.converged_state(states, change, tolerance=1e-14)
    return next(states)


def rounding(stack: Pair) -> Slack:
    """Tolerance for rounding errors that inverses of `A` amplify."""
    why = (
        "1e-14 of rounding in roots and inverses, times the squared condition of A, at "
        "most 1e-6"
    )
    size = min(1e-6, 1e-14 * np.max(np.linalg.cond(stack.A)) ** 2 + 1e-12)
    return Slack(tolerance=float(size), why=why)


@eqx.filter_jit
def _self_plan(m: Member) -> tuple[JaxArray, JaxArray, JaxArray]:
    mu = gauss_hermite(lib.gaussian(m), order=16)
    return plans(lib.attention("sinkhorn", m), 0.0, mu)[0], mu.tokens.x, mu.weights


def library_plan(rng: Rng) -> tuple[Nodes, Pair, Array]:
    """The library's plan of a random Gaussian with itself, on Gauss–Hermite nodes.

    The array marks the nodes within two standard deviations.
    """
    (m,) = lib.members(lib.ensemble(rng, (2, 3, 2), 1, reach=0.25))
    size = lambda M: np.linalg.norm(M @ np.c_[m.factor, m.mean], 2)
    Q, K = (M + np.eye(3, 2) / 3 for M in (m.Q, m.K))
    root = np.sqrt(0.25 * m.epsilon)
    m = m._replace(Q=Q * root / size(Q), K=K * root / size(K))
    plan, x, w = map(np.asarray, _self_plan(m))
    S, far = m.covariance, np.linalg.solve(m.factor, (x - m.mean).T)
    central = np.max(np.abs(far), axis=0) < 2
    pair = Pair(m.mean, m.mean, S, S, m.Q, m.K, m.epsilon)
    return Nodes(x, x, plan * w[:, None]), pair, central


SOLVER_SLACK = Slack(
    tolerance=1e-8, why="log-marginals solved to 4e-11, times |x|²; 16 nodes an axis"
)
