"""Random Gaussians with parameters, and tokens, as the common protocol asks."""

from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._vocabulary import Member


def small_draws(rng: Rng, d: int, count: int) -> list[Member]:
    r"""Draws with $\|Y^\top A Y\|$ and $\|Y^\top B Y\|$ at most 1/4, L2 included.

    $\Sigma = BB^\top/d + 0.2 I$ and the rest is $N(0, 1)/2$, before `Q` and `K` shrink.
    There 20, 16, 16, 16 Gauss–Hermite nodes for d = 1, 2, 3, 4 integrate every tilt
    within two deviations to 1e-13.
    """
    draws = []
    for _ in range(count):
        B = rng.normal(size=(d, d))
        shapes = [(d,), (d, d), (d, d), (d, d)]
        mean, Q, K, V = (rng.normal(size=shape) / 2 for shape in shapes)
        factor = np.linalg.cholesky(B @ B.T / d + 0.2 * np.eye(d))
        Q, K = (M * np.sqrt(0.125) / np.linalg.norm(M @ factor, 2) for M in (Q, K))
        draws.append(Member(mean, factor, Q, K, V, np.asarray(1.0)))
    return draws


def tokens(rng: Rng, n: int, d: int) -> tuple[Array, Array]:
    """Normal tokens, and weights that differ and sum to one."""
    w = rng.uniform(0.2, 1.8, size=n)
    return rng.normal(size=(n, d)), w / w.sum()
