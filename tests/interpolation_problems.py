"""Random problems that are hard to interpolate, and their velocities in NumPy."""

from typing import NamedTuple

import numpy as np
from reference import log_sum

KINDS = ("clusters", "lonely", "heavy-tailed", "outliers", "ring", "far", "steps")
THIN = ("lines", "duplicates", "inner", "needle")


def hard_cloud(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Tokens of which few lie where sums change fast."""
    normal, way = rng.normal(size=(n, d)), rng.normal(size=d)
    way, count = way / np.linalg.norm(way), int(rng.integers(1, 30))
    narrow = 10 ** rng.uniform(-3, -0.5) * normal
    sides = rng.choice([-1.0, 1.0], n) * rng.uniform(1, 4)
    sides[:count] = rng.uniform(-1, 1, count)
    scales = np.where(np.arange(n) < count, 10 ** rng.uniform(0.3, 1.3), 0.5)
    centres = 0.5 * (rng.geometric(0.5, n) - 1)  # masses of clusters
    clouds = {
        "clusters": rng.normal(size=(5, d))[rng.integers(0, 5, n)] + narrow,
        "lonely": sides[:, None] * way + narrow,
        "heavy-tailed": 0.5 * rng.standard_t(rng.integers(2, 8), (n, d)),
        "outliers": scales[:, None] * normal,
        "ring": 2 * normal / np.linalg.norm(normal, axis=1, keepdims=True) + narrow,
        "far": 0.5 * normal + 10 ** rng.uniform(0, 3) * way,
        "steps": centres[:, None] * way + narrow,
    }
    return clouds[kind]


def thin_cloud(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Tokens on lines, in equal places, or on far fewer scales than their box."""
    normal, count = rng.normal(size=(n, d)), int(rng.integers(1, 30))
    lines = rng.uniform(-2, 2, (n, 1)) * np.eye(d)[rng.integers(0, d, n)]
    lines += 10 ** rng.uniform(-5, -2) * normal
    places = rng.normal(size=(int(rng.integers(2, 12)), d))
    chosen_places = places[rng.integers(0, len(places), n)]
    lines[:count], chosen_places[:count] = rng.uniform(-2, 2, (2, count, d))
    corners = rng.normal(size=(d + 2, d))
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    around = rng.uniform(1, 3) * corners[rng.integers(0, d + 2, n)] + 0.01 * normal
    around[:count] = 0.05 * normal[:count]
    clouds = {
        "lines": lines @ np.linalg.qr(rng.normal(size=(d, d)))[0],
        "duplicates": chosen_places,
        "inner": around,
        "needle": np.where(rng.uniform(size=(n, 1)) < 0.5, 1e-3, 1) * normal + 0.3,
    }
    return clouds[kind]


def matrix(d: int, rng: np.random.Generator) -> np.ndarray:
    """A matrix of norm one: definite, indefinite, or not symmetric."""
    B = rng.normal(size=(d, d))
    A = (B @ B.T, -B @ B.T, B + B.T, B)[rng.integers(0, 4)]
    return A / np.linalg.norm(A, 2)


def weights(n: int, rng: np.random.Generator) -> np.ndarray:
    """Equal or random weights, zero for every fifth token, or over six decades."""
    excluded = np.where(rng.uniform(size=n) < 0.2, 0, 1.0)
    kinds = (np.ones(n), rng.uniform(size=n), excluded, 10 ** rng.uniform(-6, 0, n))
    return kinds[rng.integers(0, 4)]


class Problem(NamedTuple):
    """An attention with `Q = A`, `K = I`, and weighted tokens."""

    name: str
    A: np.ndarray
    V: np.ndarray
    x: np.ndarray
    w: np.ndarray

    @classmethod
    def random(
        cls, kind: str, name: str, seed: int, *, n: int, d: int, sharpness: float
    ) -> "Problem":
        """A cloud of a kind in random order.

        With the mean at the origin, the largest score is 0.1 to 1 times `sharpness`.
        """
        rng = np.random.default_rng([(KINDS + THIN).index(kind), d, seed])
        cloud = thin_cloud if kind in THIN else hard_cloud
        x = rng.permutation(cloud(kind, n, d, rng))
        radius = np.max(np.linalg.norm(x - x.mean(axis=0), axis=1))
        A = matrix(d, rng) * sharpness * 10 ** rng.uniform(-1, 0) / radius**2
        V = matrix(d, rng) if rng.uniform() < 0.5 else rng.choice([-1, 1]) * np.eye(d)
        return cls(name, A, V, x, weights(n, rng))

    def velocities(self, x: np.ndarray) -> np.ndarray:
        """Velocities of tokens moved to `x`, in double precision NumPy."""
        x = np.asarray(x, float)
        centre, has_weight = x.mean(axis=0), self.w > 0
        keys, logs = (x - centre)[has_weight], np.log(self.w[has_weight])
        if self.name == "l2":  # |Ax - y|² minus terms of one side, about the centre
            logs = logs - np.sum(keys**2, axis=1) - 2 * keys @ centre
        factor = 2 if self.name == "l2" else 1
        means = np.empty_like(x)
        for start in range(0, len(x), 1000):
            rows = slice(start, start + 1000)
            S = factor * x[rows] @ self.A.T @ keys.T + logs[None]
            P = np.exp(S - S.max(axis=1, keepdims=True))
            means[rows] = P @ keys / P.sum(axis=1, keepdims=True) + centre
        return means @ self.V.T

    def sinkhorn_velocities(self) -> np.ndarray:
        """Velocities of Sinkhorn attention by alternation, then dense Newton steps."""
        has_weight, w = self.w > 0, self.w[self.w > 0] / self.w.sum()
        y = self.x[has_weight]
        S = (self.x - w @ y) @ self.A.T @ (y - w @ y).T
        scores, g, root, m = (
            S[has_weight],
            np.zeros(len(y)),
            np.sqrt(w),
            np.zeros(len(y)),
        )
        for step in range(50):
            P = (
                np.exp(scores + g[None] - log_sum(scores + g[None], w)[:, None])
                * w[None]
            )
            m = P.T @ w / w  # the masses of columns
            if np.max(np.abs(np.log(m))) < 1e-10:
                break
            # Newton's system in `root * g`, the constants pinned.
            scaled = P / root[None] * root[:, None]
            H = np.diag(m) - scaled.T @ scaled
            newton = np.linalg.solve(H + np.outer(root, root), root * (1 - m)) / root
            g = g + (newton if step > 30 else -np.log(m))
        logs = S + g[None]
        P = np.exp(logs - log_sum(logs, w)[:, None]) * w[None]
        assert np.max(np.abs(np.log(m))) < 1e-10
        return P @ y @ self.V.T
