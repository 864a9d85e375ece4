"""Gradients of every energy against differences of energies in NumPy."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from stress_reference import interaction_energy, sinkhorn_energy

from meanfield.energies import GradientFlow, dissipation, energies
from meanfield.fields import Affine
from meanfield.measures import AbstractMeasure, FixedBox, Gaussian, Grid, Points
from meanfield.measures.edges import even_edges
from meanfield.tokens import Tokens

SEED = 20261122
PAIRS = ["interaction", "interaction-l2", "sinkhorn"]
ALL_ENERGIES = [*PAIRS, "second-moment", "entropy"]
STEP = 1e-3


class Case(NamedTuple):
    """Matrices, weighted tokens, a Gaussian, and an affine velocity."""

    Q: np.ndarray
    K: np.ndarray
    x: np.ndarray
    w: np.ndarray
    alpha: np.ndarray
    Y: np.ndarray
    M: np.ndarray
    m: np.ndarray
    epsilon: float = 1.3


def case(d: int, seed: int = 0) -> Case:
    rng = np.random.default_rng(SEED + 10 * d + seed)
    Q, K, Y, M = rng.normal(size=(4, d, d)) / np.sqrt(d)
    alpha, m = rng.normal(size=(2, d)) / 3
    x, w = rng.normal(size=(9, d)), rng.dirichlet(np.full(9, 2.0))
    return Case(Q / 2, K / 2, x, w, alpha, Y + np.eye(d) / 2, M, m)


def energy_of_atoms(name: str, c: Case, x: np.ndarray, w: np.ndarray) -> np.complex128:
    """The energy of real or complex atoms and weights."""
    q, k = x @ c.Q.T, x @ c.K.T
    S = q @ k.T / c.epsilon
    if name == "second-moment":
        return np.complex128(w @ np.sum(x * x, axis=1) / 2)
    if name == "interaction-l2":
        squares = np.sum(q * q, axis=1)[:, None] + np.sum(k * k, axis=1)[None]
        S = 2 * S - squares / c.epsilon
    if name != "sinkhorn":
        return np.complex128(w @ np.exp(S) @ w / 2)
    kernel, rows = np.exp(S), np.ones_like(w)
    columns = rows
    for _ in range(400):
        rows = 1 / (kernel @ (columns * w))
        columns = 1 / (kernel.T @ (rows * w))
    return np.complex128(-(w @ (np.log(rows) + np.log(columns))) / 2)


def energy_of_moments(name: str, c: Case, alpha: np.ndarray, Y: np.ndarray) -> float:
    Sigma, zero = Y @ Y.T, np.zeros_like(Y)
    Q, K, A = c.Q, c.K, c.K.T @ c.Q / c.epsilon
    if name == "second-moment":
        return float(alpha @ alpha + np.trace(Sigma)) / 2
    if name == "entropy":
        return -float(np.linalg.slogdet(2 * np.pi * np.e * Sigma)[1]) / 2
    if name == "sinkhorn":
        return sinkhorn_energy(A, alpha, Y)
    squares = np.block([[Q.T @ Q, -Q.T @ K], [-K.T @ Q, K.T @ K]]) / c.epsilon
    products = np.block([[zero, A.T], [A, zero]])
    M = -2 * squares if name == "interaction-l2" else products
    return interaction_energy(M, alpha, Sigma)


def difference(along: Callable[[float], float], h: float = STEP) -> float:
    """A fourth-order difference."""
    near, far = (along(k * h) - along(-k * h) for k in (1, 2))
    return (8 * near - far) / (12 * h)


def tolerance(name: str, dtype: type) -> float:
    """Rounding, plus the tolerance of potentials."""
    eps = float(np.finfo(dtype).eps)
    return 30 * eps ** (2 / 3) if name == "sinkhorn" else 1000 * eps


def gradients(name: str, mu: AbstractMeasure, c: Case, at: np.ndarray) -> tuple:
    """The steepest descent at tokens, and the dissipation of an affine velocity."""
    dtype = at.dtype

    def field_and_dissipation(
        mu: AbstractMeasure, *parts: Array
    ) -> tuple[Array, Array, Array]:
        Q, K, M, m, at = parts
        energy = energies[name](Q, K, jnp.eye(len(m), dtype=dtype), epsilon=c.epsilon)
        power = dissipation(energy, mu, Affine(M, m))
        if name == "entropy" and isinstance(mu, Grid):
            return -energy.gradient(mu, Tokens(at)), power, at
        return GradientFlow(energy).field(0.0, mu)(Tokens(at)), power, at

    parts = [jnp.asarray(p, dtype) for p in (c.Q, c.K, c.M, c.m, at)]
    descent, power, _ = jax.jit(field_and_dissipation)(mu, *parts)
    assert descent.dtype == dtype
    return np.asarray(descent, float), float(power)


def mark_slow(names: list[str], dimensions: tuple[int, ...]) -> list:
    """The first instance is quick; the others are slow."""
    cases = [
        (name, d, dtype)
        for name in names
        for d in dimensions
        for dtype in (np.float64, np.float32)
    ]
    return cases[:1] + [
        pytest.param(*instance, marks=pytest.mark.slow) for instance in cases[1:]
    ]


@pytest.mark.parametrize(
    ("name", "d", "dtype"), mark_slow([*PAIRS, "second-moment"], (1, 2, 3))
)
def test_energy_gradients_at_weighted_tokens(name: str, d: int, dtype: type):
    c = case(d)
    c = c._replace(x=c.x.astype(dtype).astype(float))
    mu = Points.weighted(jnp.asarray(c.x, dtype), jnp.asarray(c.w, dtype))
    descent, power = gradients(name, mu, c, c.x.astype(dtype))
    expected = np.empty_like(c.x)
    for i, j in np.ndindex(*c.x.shape):
        perturbed = c.x.astype(complex)
        perturbed[i, j] += 1e-30j
        slope = energy_of_atoms(name, c, perturbed, c.w).imag / 1e-30
        expected[i, j] = -slope / c.w[i]
    v = c.x @ c.M.T + c.m
    derivative = energy_of_atoms(name, c, c.x + 1e-30j * v, c.w).imag / 1e-30
    size, work = np.max(np.abs(expected)), c.w @ np.sum(np.abs(expected * v), axis=1)
    assert np.max(np.abs(descent - expected)) <= tolerance(name, dtype) * size
    assert abs(power - derivative) <= tolerance(name, dtype) * work


@pytest.mark.parametrize(("name", "d", "dtype"), mark_slow(ALL_ENERGIES, (1, 2, 3)))
def test_energy_gradients_at_gaussians(name: str, d: int, dtype: type):
    """The descent is affine, and minus the Riesz representative of the gradient."""
    c = case(d)
    mu = Gaussian(jnp.asarray(c.alpha, dtype), jnp.asarray(c.Y, dtype))
    frame = np.vstack([np.zeros(d), np.eye(d)]).astype(dtype)
    descent, power = gradients(name, mu, c, frame)
    b, L = descent[0], (descent[1:] - descent[0]).T

    def energy_rate(M: np.ndarray, m: np.ndarray) -> float:
        perturbed = lambda t: (c.alpha + t * (M @ c.alpha + m), c.Y + t * M @ c.Y)
        return difference(lambda t: energy_of_moments(name, c, *perturbed(t)))

    eps, Sigma = float(np.finfo(dtype).eps), c.Y @ c.Y.T
    stiff = np.linalg.cond(Sigma) if name == "entropy" else 1.0
    limit = max(1e-9, 1000 * eps * stiff)  # differences: h⁴, and 1e-16 / h
    scale = 1 + np.linalg.norm(L @ c.Y) * np.linalg.norm(c.M @ c.Y)
    assert abs(power - energy_rate(c.M, c.m)) <= limit * scale
    for seed in range(3):
        M, m = case(d, seed + 1).M, case(d, seed + 1).m
        inner = (L @ c.alpha + b) @ (M @ c.alpha + m) + np.sum((L @ Sigma) * M)
        scale = 1 + np.linalg.norm(L @ c.Y) * np.linalg.norm(M @ c.Y)
        assert abs(inner + energy_rate(M, m)) <= limit * scale


def mixture(c: Case) -> tuple[np.ndarray, np.ndarray, Callable]:
    """Two isotropic Gaussians: nodes, weights and the density."""
    d = len(c.alpha)
    z, v = np.polynomial.hermite_e.hermegauss(14)
    grid = np.stack(np.meshgrid(*[z] * d, indexing="ij"), -1).reshape(-1, d)
    weights = v if d == 1 else np.outer(v, v).ravel()
    weights = weights / weights.sum()
    parts = [(0.35, c.alpha - 0.7, 0.6), (0.65, c.alpha + 0.5, 0.5)]
    x = np.concatenate([mean + s * grid for _, mean, s in parts])
    w = np.concatenate([share * weights for share, _, _ in parts])

    def density(y: np.ndarray) -> np.ndarray:
        total = 0.0
        for share, mean, s in parts:
            squares = np.sum((y - mean) ** 2, axis=-1) / s**2
            total = total + share * np.exp(-squares / 2) / (2 * np.pi * s**2) ** (d / 2)
        return np.asarray(total)

    return x, w, density


@pytest.mark.parametrize(("name", "d", "dtype"), mark_slow(ALL_ENERGIES, (1, 2)))
def test_energy_gradients_at_densities(name: str, d: int, dtype: type):
    """The variation is the effect of an atom of infinitesimal mass."""
    c = case(d)
    x, w, density = mixture(c)
    # The entropy is read off cubics, whose slopes are of third order in the cells.
    cells = 56 if d == 2 and name != "entropy" else 160
    axes = [even_edges(mean - 4.2, mean + 4.2, cells) for mean in c.alpha]
    grid = Grid.from_function(axes, density, box=FixedBox())
    mu = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), grid)
    at = (c.alpha + np.random.default_rng(SEED).uniform(-1, 1, (5, d))).astype(dtype)
    descent, power = gradients(name, mu, c, at)

    def variation(y: np.ndarray) -> float:
        if name == "entropy":
            return float(np.log(density(y)))
        atoms, weights = np.vstack([x, y]), np.append(w, 1e-30j)
        return float(energy_of_atoms(name, c, atoms, weights).imag / 1e-30)

    expected = np.array(
        [
            [-difference(lambda t, e=e, y=y: variation(y + t * e)) for e in np.eye(d)]
            for y in at.astype(float)
        ]
    )
    derivative = -np.trace(c.M)  # of the entropy: the mass of a volume that grows
    if name != "entropy":
        v = 1e-30j * (x @ c.M.T + c.m)
        derivative = energy_of_atoms(name, c, x + v, w).imag / 1e-30
    limit = max(2e-4 if name == "entropy" else 2e-5, 3 * tolerance(name, dtype))
    size = np.max(np.abs(expected))
    assert np.max(np.abs(descent - expected)) <= limit * size
    assert abs(power - derivative) <= limit * max(1, size)
