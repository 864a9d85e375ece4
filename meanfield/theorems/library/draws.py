"""Random parameters and measures, as the statements' common protocol asks."""

from typing import NamedTuple

import numpy as np


class Draw(NamedTuple):
    r"""A Gaussian and parameters: $\Sigma = BB^\top/d + 0.2 I$, the rest $N(0, 1)/2$.

    Attributes:
        mean: $\alpha$, `(d,)`.
        covariance: $\Sigma$, `(d, d)`.
        Q: `(d, d)`.
        K: `(d, d)`.
        V: `(d, d)`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray

    @property
    def A(self) -> np.ndarray:
        r"""$K^\top Q$."""
        return self.K.T @ self.Q

    @property
    def factor(self) -> np.ndarray:
        """A Cholesky factor of the covariance."""
        return np.linalg.cholesky(self.covariance)


def draws(rng: np.random.Generator, d: int, count: int) -> list[Draw]:
    """So many independent draws in dimension `d`."""
    made = []
    for _ in range(count):
        B = rng.normal(size=(d, d))
        mean, Q, K, V = (
            rng.normal(size=shape) / 2 for shape in [(d,), (d, d), (d, d), (d, d)]
        )
        made.append(Draw(mean, B @ B.T / d + 0.2 * np.eye(d), Q, K, V))
    return made


def small_draws(rng: np.random.Generator, d: int, count: int) -> list[Draw]:
    r"""Draws with $\|Y^\top A Y\|$ and $\|Y^\top B Y\|$ at most 1/4, L2 included.

    There 20, 16, 16, 16 Gauss–Hermite nodes for d = 1, 2, 3, 4 integrate every tilt
    within two deviations to 1e-13.
    """
    made = []
    for draw in draws(rng, d, count):
        sizes = [np.linalg.norm(M @ draw.factor, 2) for M in (draw.Q, draw.K)]
        Q, K = (
            M * np.sqrt(0.125) / size
            for M, size in zip((draw.Q, draw.K), sizes, strict=True)
        )
        made.append(draw._replace(Q=Q, K=K))
    return made


def tokens(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal tokens, and weights that differ and sum to one."""
    w = rng.uniform(0.2, 1.8, size=n)
    return rng.normal(size=(n, d)), w / w.sum()
