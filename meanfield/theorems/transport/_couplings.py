r"""Entropic couplings of two Gaussians, in NumPy and by the library.

The library couples a measure with itself. On the product $\mu\otimes\nu$ of pairs
$z = (x, y)$, with queries $Qx$ and keys $Ky$, that is the coupling of $\mu$ with $\nu$:
potentials of $z$ depend on $x$ alone and on $y$ alone.
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
from meanfield.theorems.library.ensembles import within
from meanfield.theorems.reference import alternation
from meanfield.theorems.reference.measures import hermite_nodes

Potentials = tuple[Array, Array]


class Pair(NamedTuple):
    r"""$N(\alpha, \Sigma)$ and $N(\beta, \Omega)$, with parameters; or a stack."""

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
    def mirrored(self) -> "Pair":
        r"""The same with queries and keys exchanged: $A^\top$ for $A$."""
        alpha, beta, Sigma, Omega, Q, K, epsilon = self
        return Pair(beta, alpha, Omega, Sigma, K, Q, epsilon)


def pairs(rng: Rng, d: int, k: int, count: int, *, reach: float = np.inf) -> Pair:
    r"""Generic covariances and parameters, `A` away from singular matrices.

    $\|QY\|^2$ and $\|KZ\|^2$, and those of the means, are at most `reach` ε.
    """
    first = lib.ensemble(rng, (d, k, d), count, reach=reach)
    second = lib.ensemble(rng, (d, k, d), count, reach=reach)
    second = second._replace(epsilon=first.epsilon)
    tame = np.eye(k, d) * np.minimum(1, np.sqrt(reach)) / 2
    Q = within(first.Q + tame, first, reach)
    K = within(second.K + tame, second, reach)
    moments = (first.mean, second.mean, first.covariance, second.covariance)
    return Pair(*moments, Q, K, first.epsilon)


def each(stack: Pair) -> Iterator[Pair]:
    """One by one."""
    return (Pair(*parts) for parts in zip(*stack, strict=True))


def product(stack: Pair) -> Member:
    """The product measures, queries of the first and keys of the second."""
    n, d = stack.alpha.shape
    zero, none = np.zeros((n, d, d)), np.zeros_like(stack.Q)
    Y, Z = np.linalg.cholesky(stack.Sigma), np.linalg.cholesky(stack.Omega)
    mean = np.concatenate([stack.alpha, stack.beta], axis=1)
    factor = np.block([[Y, zero], [zero, Z]])
    Q, K = (np.concatenate(M, axis=2) for M in ([stack.Q, none], [none, stack.K]))
    one = np.broadcast_to(np.eye(2 * d), (n, 2 * d, 2 * d))
    return Member(mean, factor, Q, K, one, stack.epsilon)


def slopes(stack: Pair, **options: int | None) -> Array:
    r"""By the library: $E[y | x] = \beta + T(x - \alpha)$, the matrices $T$.

    $T = \mathrm{Cov}(y, x)\Sigma^{-1} = G^{-1}A$.
    """
    d = stack.alpha.shape[1]
    linear = np.asarray(lib.rates("sinkhorn", product(stack), None, **options).linear)
    return linear[:, d:, :d] * stack.epsilon[:, None, None]


def recursion(p: Pair, steps: int) -> tuple[Array, Array]:
    r"""$F$ and $G$ of (A.9) after so many steps from $G_0 = \epsilon\Omega^{-1}$."""
    A, e = p.A, p.epsilon
    row, column = e * np.linalg.inv(p.Sigma), e * np.linalg.inv(p.Omega)
    F, G = row, column
    for _ in range(steps):
        F, old = row + A.T @ np.linalg.solve(G, A), G
        G = column + A @ np.linalg.solve(F, A.T)
        if np.max(np.abs(G - old)) <= 2e-16 * np.max(np.abs(G)):
            break  # at rest: more steps repeat it
    return F, G


def closed_C(p: Pair, half: float) -> Array:
    r"""$C$ of Theorem A.3, with a share `half` of the bandwidth for $h$.

    $\Omega^{1/2}(\Omega^{1/2}A\Sigma A^\top\Omega^{1/2} + h^2)^{1/2}\Omega^{-1/2} -
    h$, by SciPy's root.
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
    def slope(self) -> Array:
        """The linear part of E[y | x], by weighted least squares."""
        w = self.plan.sum(axis=1)
        x = self.x - w @ self.x
        y = self.plan @ self.y / w[:, None]
        gram = (x * w[:, None]).T @ x
        return np.linalg.solve(gram, (x * w[:, None]).T @ y).T

    @property
    def covariance(self) -> Array:
        """Of the pair (x, y), by blocks."""
        w, v = self.plan.sum(axis=1), self.plan.sum(axis=0)
        x, y = self.x - w @ self.x, self.y - v @ self.y
        cross = x.T @ self.plan @ y
        first, last = (x * w[:, None]).T @ x, (y * v[:, None]).T @ y
        return np.block([[first, cross], [cross.T, last]])


def by_nodes(p: Pair, full_steps: int | None, nodes: int = 16) -> Nodes:
    """Sinkhorn in NumPy from g = 0, ending on rows; to convergence if `None`."""
    x, w = hermite_nodes(p.alpha, np.linalg.cholesky(p.Sigma), nodes)
    y, v = hermite_nodes(p.beta, np.linalg.cholesky(p.Omega), nodes)
    scores = (x @ p.Q.T) @ (y @ p.K.T).T / p.epsilon
    f, g = solved(alternation.potentials(scores, w, v), full_steps)
    return Nodes(x, y, np.exp(scores + f[:, None] + g[None, :]) * np.outer(w, v))


def solved(states: Iterator[Potentials], full_steps: int | None) -> Potentials:
    """What alternation ends with, or has after so many steps; `f` is of this `g`."""
    if full_steps is not None:
        return alternation.after(states, 2 * full_steps + 1)
    moved = lambda old, new: np.ptp(new[1] - old[1])
    alternation.settled(states, moved, below=1e-14)
    return next(states)


def rounding(stack: Pair) -> Slack:
    """What inverses of `A` make of rounding."""
    why = (
        "1e-14 of rounding in roots and inverses, times the squared condition of A, at "
        "most 1e-6"
    )
    size = min(1e-6, 1e-14 * np.max(np.linalg.cond(stack.A)) ** 2 + 1e-12)
    return Slack(tolerance=float(size), why=why)


class OnNodes(NamedTuple):
    """The library's plan of a Gaussian with itself, on its own nodes."""

    nodes: Nodes
    pair: Pair
    central: Array


@eqx.filter_jit
def _self_plan(m: Member) -> tuple[JaxArray, JaxArray, JaxArray]:
    mu = gauss_hermite(lib.gaussian(m), order=16)
    return plans(lib.attention("sinkhorn", m), 0.0, mu)[0], mu.tokens.x, mu.weights


def on_nodes(rng: Rng) -> OnNodes:
    """Of a generic Gaussian; `central` marks nodes within two deviations."""
    (m,) = lib.members(lib.ensemble(rng, (2, 3, 2), 1, reach=0.25))
    size = lambda M: np.linalg.norm(M @ np.c_[m.factor, m.mean], 2)
    Q, K = (M + np.eye(3, 2) / 3 for M in (m.Q, m.K))
    root = np.sqrt(0.25 * m.epsilon)
    m = m._replace(Q=Q * root / size(Q), K=K * root / size(K))
    plan, x, w = map(np.asarray, _self_plan(lib.on_device(m)))
    S, far = m.covariance, np.linalg.solve(m.factor, (x - m.mean).T)
    central = np.max(np.abs(far), axis=0) < 2
    pair = Pair(m.mean, m.mean, S, S, m.Q, m.K, m.epsilon)
    return OnNodes(Nodes(x, x, plan * w[:, None]), pair, central)


SOLVED = Slack(
    tolerance=1e-8, why="log-marginals solved to 4e-11, times |x|²; 16 nodes an axis"
)
