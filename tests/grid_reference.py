"""Densities and dynamics whose flows are known without a grid."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.special import ndtr
from typing_extensions import override

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import AbstractBox, AbstractMeasure, AffineBox, Grid
from meanfield.tokens import Tokens

Law = Callable[[np.ndarray], np.ndarray]  # a distribution function


class PrescribedVelocity(AbstractDynamics):
    """A velocity field that does not depend on the measure."""

    velocity: Callable[[Array, Array], Array]

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        del mu
        return PrescribedField(jnp.asarray(t), self.velocity)


class PrescribedField(AbstractField):
    t: Float[Array, ""]
    velocity: Callable[[Array, Array], Array]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.velocity(self.t, tokens.x)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return None


def normal(sigma: float = 1.0, mean: float = 0.0) -> Law:
    return lambda x: ndtr((x - mean) / sigma)


def two_bumps(x: np.ndarray) -> np.ndarray:
    return 0.6 * ndtr((x + 1.1) / 0.5) + 0.4 * ndtr((x - 0.9) / 0.4)


def masses_of(law: Law, edges: np.ndarray) -> np.ndarray:
    """Masses of cells, by the nearer tail, so that small ones keep their digits."""
    below, above = np.diff(law(edges)), -np.diff(law(-edges))
    return np.where(edges[1:] + edges[:-1] > 0, above, below) if _even(law) else below


def _even(law: Law) -> bool:
    x = np.linspace(0.1, 3, 7)
    return bool(np.allclose(law(x) + law(-x), 1, rtol=0, atol=1e-15))


def line(law: Law, edges: np.ndarray, box: AbstractBox = AffineBox()) -> Grid:
    """The grid of a law on a line."""
    return Grid.from_density([edges], masses_of(law, edges) / np.diff(edges), box=box)


def physical_edges(mu: Grid) -> np.ndarray:
    D, c = np.asarray(mu.state.axes), np.asarray(mu.state.origin)
    return np.asarray(mu.edges[0]) * D[0, 0] + c[0]


def tilted_mean(x: np.ndarray, y: np.ndarray, w: np.ndarray, A: float) -> np.ndarray:
    """Softmax attention on a line, in NumPy."""
    S = A * x[:, None] * y[None, :]
    E = np.exp(S - S.max(axis=1, keepdims=True)) * w
    return E @ y / E.sum(axis=1)


def characteristics(law: Law, A: float, t: float, n: int = 400) -> Law:
    """The law at time t under softmax attention, by tokens along characteristics.

    Weights of the trapezoidal rule, which is spectral for smooth densities on a line.
    """
    x0 = np.linspace(-7, 7, n)
    e = 1e-3  # a density by central differences of its law, of fourth order
    rise = lambda k: law(x0 + k * e) - law(x0 - k * e)
    w = (8 * rise(1) - rise(2)) / (12 * e)
    w = w / w.sum()
    run = solve_ivp(
        lambda _, x: tilted_mean(x, x, w, A), (0, t), x0, rtol=1e-10, atol=1e-12
    )
    inverse_map = CubicSpline(run.y[:, -1], x0)
    return lambda x: law(inverse_map(np.clip(x, run.y[0, -1], run.y[-1, -1])))
