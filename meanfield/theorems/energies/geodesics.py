"""Geodesics of the twisted metric, and convexity along them."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield.energies import Interaction, QuadraticPotential, Twisted, dissipation
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import bounded, gap
from meanfield.theorems._statement import statement
from meanfield.theorems.library.draws import tokens
from meanfield.theorems.library.energies import ROUNDED, spd
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference import formulas

SOLVER = "DOP853 at rtol 1e-11 over unit time, amplified by less than 1e2"


@statement(
    "castin2025:lemma-5.3",
    source="Lemma 5.3",
    claim=r"Geodesics: $\partial_s \rho + \mathrm{div}(\rho B \nabla\psi / (2 G * "
    r"\rho)) = 0$ and $\partial_s \psi + \frac14 \nabla\psi \cdot B \nabla\psi / "
    r"(G * \rho) - \frac14 \int \nabla\psi \cdot B \nabla\psi / (G * \rho)^2 \, "
    r"G(y, x) \rho(y) dy = 0$.",
    hypotheses=r"$B$ symmetric positive definite, any $A$",
)
def geodesics(case: Case, *, nonlocal_term: float = 1) -> tuple[Check, ...]:
    """Atoms and momenta under the two equations are a Hamiltonian flow, and stationary.

    Both equations, closed forms and complex steps of the Hamiltonian agree; along
    SciPy's solution the Hamiltonian is conserved, the action has no slope under sines
    and a positive second variation; velocity and length are the library's.
    """
    m = motion(case.rng("motion"))
    moved, energy, _ = library(m)
    z = np.stack([m.x, m.p])
    return (
        *_equations(m, nonlocal_term=nonlocal_term),
        _conserved(m, nonlocal_term=nonlocal_term),
        *_stationary(case, m, nonlocal_term=nonlocal_term),
        gap("the library's velocity", moved, m.own_velocity(z), **ROUNDED),
        gap("the library's length", energy, _hamiltonian(m, z), **ROUNDED),
    )


geodesics.refuted_if(
    "the equation of ψ goes without its integral",
    seen_by=("p' by …", "H along the geodesic", "slope of the action"),
    nonlocal_term=0,
)


class Motion(NamedTuple):
    r"""Atoms with momenta $p_i = \nabla\psi(x_i)$, $G(x, y) = e^{Ax\cdot y}$, and $B$.

    Attributes:
        A: `(d, d)`.
        B: symmetric positive definite.
        w: weights.
        x: atoms.
        H: $\psi(x) = \frac12(x - c)\cdot H(x - c)$.
        c: its centre.
    """

    A: np.ndarray
    B: np.ndarray
    w: np.ndarray
    x: np.ndarray
    H: np.ndarray
    c: np.ndarray

    @property
    def p(self) -> np.ndarray:
        """The momenta."""
        return (self.x - self.c) @ self.H

    def own_velocity(self, z: np.ndarray) -> np.ndarray:
        """$Bp/2g$ of positions and momenta."""
        return z[1] @ self.B / (2 * mass(self, z[0])[:, None])


def motion(rng: np.random.Generator, n: int = 5, d: int = 2) -> Motion:
    """A draw, `A` not symmetric."""
    x, w = tokens(rng, n, d)
    A, C = rng.normal(size=(2, d, d)) / 2
    return Motion(A, spd(rng, d), w, 0.7 * x, (C + C.T) / 2, rng.normal(size=d))


def mass(m: Motion, x: np.ndarray) -> np.ndarray:
    r"""$(G * \rho)(x_i)$."""
    return np.exp(ref.bilinear(m.A)(x, x)) @ m.w


def _hamiltonian(m: Motion, z: np.ndarray) -> np.ndarray:
    r"""$\sum_iw_i\frac14p_i\cdot Bp_i/g_i$ of positions and momenta, stacked."""
    x, p = z
    return m.w @ (np.sum((p @ m.B) * p, axis=1) / (4 * mass(m, x)))


def velocity(m: Motion, z: np.ndarray, *, nonlocal_term: float = 1.0) -> np.ndarray:
    r"""Positions and momenta moved by the equations of the lemma, in closed form.

    $x' = Bp/2g$ and $p'_i = \frac14\frac{|p_i|_B^2}{g_i^2}\nabla g(x_i) + \frac14\sum_j
    w_j\frac{|p_j|_B^2}{g_j^2}\nabla_2G(x_j, x_i)$, the last times `nonlocal_term`.
    """
    x, p = z
    G = np.exp(ref.bilinear(m.A)(x, x))  # of a query i and a key j
    g = G @ m.w
    squares = np.sum((p @ m.B) * p, axis=1) / (4 * g**2)
    own = squares[:, None] * ((G * m.w[None, :]) @ x @ m.A)
    others = (G * (m.w * squares)[:, None]).T @ x @ m.A.T
    return np.stack([p @ m.B / (2 * g[:, None]), own + nonlocal_term * others])


def path_of(m: Motion, ts: np.ndarray, *, nonlocal_term: float = 1.0) -> np.ndarray:
    """The geodesic from positions and momenta, by SciPy."""
    rate = lambda _, z: velocity(m, z, nonlocal_term=nonlocal_term)
    return formulas.integrated(rate, np.stack([m.x, m.p]), ts)


def _potential_change(m: Motion, at: np.ndarray) -> np.ndarray:
    r"""$\partial_s\psi$ of the lemma's second equation, anywhere; integrals as sums."""
    slopes = (at - m.c) @ m.H
    here = np.exp(ref.bilinear(m.A)(at, m.x)) @ m.w
    there = np.sum((m.p @ m.B) * m.p, axis=1) / mass(m, m.x) ** 2
    seen = np.exp(ref.bilinear(m.A)(m.x, at)).T @ (m.w * there)
    return -np.sum((slopes @ m.B) * slopes, axis=1) / (4 * here) + seen / 4


def _equations(m: Motion, *, nonlocal_term: float) -> tuple[Check, ...]:
    """Of momenta along characteristics; and the flow of the Hamiltonian."""
    z = np.stack([m.x, m.p])
    closed = velocity(m, z, nonlocal_term=nonlocal_term)
    slope = ref.slope(lambda z: _hamiltonian(m, z), z) / m.w[None, :, None]
    transported = ref.slope(lambda at: np.sum(_potential_change(m, at)), m.x)
    transported = transported + closed[0] @ m.H
    return (
        gap("p' by the equation of ψ", transported, closed[1], **ROUNDED),
        gap("x' by the Hamiltonian", slope[1], closed[0], **ROUNDED),
        gap("p' by the Hamiltonian", -slope[0], closed[1], **ROUNDED),
    )


@eqx.filter_jit
def _spoken(m: Motion) -> tuple[Array, Array, Array]:
    r"""The library's $B\nabla\psi/2g$ and squared length; and the interaction."""
    mu = Points.weighted(m.x, m.w)
    score = Dot(m.A, jnp.eye(m.A.shape[0]))
    psi = QuadraticPotential(m.H, m.c)
    field = Twisted(score, m.B).descent(psi, mu)
    power = dissipation(psi, mu, field)
    return -field(mu.tokens) / 2, -power / 4, Interaction(score)(mu)


def library(m: Motion) -> tuple[np.ndarray, float, float]:
    """The same in NumPy."""
    arrays = Motion(*map(jnp.asarray, m))  # pyright: ignore[reportArgumentType]
    moved, energy, E = _spoken(arrays)
    return np.asarray(moved), float(energy), float(E)


def _conserved(m: Motion, *, nonlocal_term: float) -> Check:
    path = path_of(m, np.linspace(0, 1, 5), nonlocal_term=nonlocal_term)
    values = [_hamiltonian(m, z) for z in path]
    return gap(
        "H along the geodesic",
        values,
        np.full(5, values[0]),
        tolerance=1e-9,
        why=SOLVER,
    )


def _action(
    m: Motion, path: np.ndarray, bump: np.ndarray, waves: np.ndarray
) -> np.ndarray:
    r"""$\iint x'\cdot B^{-1}x'\,g\,d\mu\,dt$ of the path and a bump, at Gauss nodes."""
    _, weights = np.polynomial.legendre.leggauss(len(path))
    inverse, total = np.linalg.inv(m.B), np.zeros(())
    for z, wave, share in zip(path, waves, weights / 2, strict=True):
        x = z[0] + wave[0] * bump
        u = m.own_velocity(z) + wave[1] * bump
        total = total + share * (m.w @ (np.sum((u @ inverse) * u, axis=1) * mass(m, x)))
    return total


def _stationary(case: Case, m: Motion, *, nonlocal_term: float) -> tuple[Check, Check]:
    """First and second variation of the action under three sines."""
    nodes = (np.polynomial.legendre.leggauss(24)[0] + 1) / 2
    ts = np.concatenate([[0.0], nodes])
    path = path_of(m, ts, nonlocal_term=nonlocal_term)[1:]
    rng, first, second = case.rng("bumps"), [], []
    for k in (1, 2, 3):
        bump = rng.normal(size=m.x.shape)
        wave = np.stack(
            [np.sin(np.pi * k * nodes), np.pi * k * np.cos(np.pi * k * nodes)]
        )
        value = lambda size, bump=bump, wave=wave: _action(m, path, bump, size * wave.T)
        first.append(abs(ref.along(value, np.zeros(()), np.ones(()))))
        second.append(value(0.01) + value(-0.01) - 2 * value(0.0))
    scale = _action(m, path, 0 * m.x, np.zeros((24, 2)))
    slope = float(max(first) / scale)
    why = "24 Gauss nodes in time and " + SOLVER
    return (
        bounded("slope of the action", slope, "<=", 0, tolerance=1e-8, why=why),
        bounded("least second variation", float(min(second)), ">=", 0),
    )


def symmetric(m: Motion) -> Motion:
    """The same with the symmetric part of `A`."""
    return m._replace(A=(m.A + m.A.T) / 2)
