"""Convexity of the interaction energy along twisted geodesics."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from meanfield.attention import attentions
from meanfield.measures import Points
from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import bounded, gap
from meanfield.theorems._statement import Counterexample, statement
from meanfield.theorems.library.energies import ROUNDED, ROUNDING, spd
from meanfield.theorems.reference import energies as ref

from .geodesics import Motion, library, mass, motion, path_of, symmetric, velocity

WAY = 0.1  # that an atom may go along a chord: beyond .3 or so E may be convex


@statement(
    "castin2025:prop-5.4-d2E",
    source="Proof of Proposition 5.4",
    claim=r"Along geodesics, with $\Gamma$ softmax attention and $g = G * \rho$: "
    r"$\partial_s^2 E = \frac14 \iint [(\nabla\psi(x) \cdot Vy)^2 / g(x)^2 + "
    r"((\nabla\psi(x) \cdot Vy)(\nabla\psi(y) \cdot Vx) - (\nabla\psi \cdot \Gamma)(x)"
    r"\nabla\psi(y) \cdot Vx - \nabla\psi(x) \cdot VB\nabla\psi(y)) / (g(x) g(y))] G - "
    r"\frac14 \int (\nabla\psi \cdot \Gamma)^2 / g + \frac18 \iint [|\nabla\psi|_B^2 / "
    r"g^2 (x) + |\nabla\psi|_B^2 / g^2 (y)] \Gamma(x) \cdot B^{-1} V y \, G$.",
    hypotheses=r"$A$ symmetric, $B$ symmetric positive definite, $V = -BA$",
    remark=r"The six integrals are in an arrangement of our own; what the erratum "
    r"concerns, the factor $G(x, y)$ of the last, does not depend on it.",
)
def second_variation(case: Case) -> tuple[Check, ...]:
    """The six integrals, with the library's softmax attention, on weighted atoms.

    Against a complex step of the slope of the energy along the geodesic's equations.
    """
    m = symmetric(motion(case.rng("motion 0")))
    z = np.stack([m.x, m.p])
    moved, _, E = library(m)
    energy = lambda x: ref.interaction(x, m.w, ref.bilinear(m.A))
    return (
        *_formula(case, last=1),
        gap(
            "dE by the library's velocity",
            ref.along(energy, m.x, moved),
            _slope(m, z),
            **ROUNDED,
        ),
        gap("the library's E", E, energy(m.x), **ROUNDED),
    )


@second_variation.refuted_by("$A$ is not symmetric")
def _(case: Case) -> tuple[Check, ...]:
    checks = []
    for k in range(3):
        m = motion(case.rng(f"motion {k}"))
        energy = lambda z, m=m: _true_slope(m, z)
        z = np.stack([m.x, m.p])
        exact = float(ref.along(energy, z, velocity(m, z)))
        found = _integrals(m, last=1)
        checks.append(
            gap(f"d²E, draw {k + 1}", found, exact, tolerance=1e-11, why=ROUNDING)
        )
    return tuple(checks)


@second_variation.misprinted(
    "C23",
    printed=r"The factor $G(x, y)$ is missing from the last double integral, here read "
    r"as $\frac18 \iint [|\nabla\psi|_B^2 / g^2 (x) + |\nabla\psi|_B^2 / g^2 (y)] "
    r"\Gamma(x) \cdot B^{-1} V y$.",
    corrected=r"The same times $G(x, y)$.",
    counterexample="five random atoms of random weights in the plane",
)
def _(case: Case) -> Counterexample:
    return Counterexample(_formula(case, last=0), _formula(case, last=1))


def _slope(m: Motion, z: np.ndarray) -> np.ndarray:
    """$dE/ds$ along the geodesic through positions and momenta, `A` symmetric."""
    x, _ = z
    G = np.exp(ref.bilinear(m.A)(x, x))
    gradient = (G * m.w[None, :]) @ x @ m.A
    return m.w @ np.sum(velocity(m, z)[0] * gradient, axis=1)


def second_derivative(m: Motion) -> float:
    """$d^2E/ds^2$: a complex step of the slope along the geodesic's equations."""
    z = np.stack([m.x, m.p])
    return float(ref.along(lambda z: _slope(m, z), z, velocity(m, z)))


@eqx.filter_jit
def _softmax(A: Array, V: Array, x: Array, w: Array) -> Array:
    mu = Points.weighted(x, w)
    attention = attentions["softmax"](A, jnp.eye(A.shape[0]), V)
    return attention.field(0.0, mu)(mu.tokens)


def _integrals(m: Motion, *, last: float) -> float:
    r"""The six, with $V = -BA$ and the library's softmax field $\Gamma$.

    `last` is the power of $G(x, y)$ in the sixth.
    """
    V, x, p, w = -m.B @ m.A, m.x, m.p, m.w
    Gamma = np.asarray(_softmax(*(jnp.asarray(each) for each in (m.A, V, x, w))))
    G, g = np.exp(ref.bilinear(m.A)(x, x)), mass(m, x)
    pairs = w[:, None] * w[None, :]
    along = p @ V @ x.T  # of a momentum i and an atom j
    drift, lengths = np.sum(p * Gamma, axis=1), np.sum((p @ m.B) * p, axis=1) / g**2
    inner = Gamma @ np.linalg.solve(m.B, V) @ x.T
    both = g[:, None] * g[None, :]
    doubles = (
        along**2 / g[:, None] ** 2
        + along * along.T / both
        - drift[:, None] * along.T / both
        - p @ V @ m.B @ p.T / both
    ) * G
    sixth = (lengths[:, None] + lengths[None, :]) * inner * G**last / 2
    return float((np.sum(pairs * (doubles + sixth)) - w @ (drift**2 / g)) / 4)


def _formula(case: Case, *, last: float) -> tuple[Check, ...]:
    checks = []
    for k in range(case.pick(3, 10)):
        m = symmetric(motion(case.rng(f"motion {k}")))
        exact = second_derivative(m)
        why = ROUNDING + "; the six cancel by less than ten"
        found = _integrals(m, last=last)
        checks.append(gap(f"d²E, draw {k + 1}", found, exact, tolerance=1e-11, why=why))
    return tuple(checks)


def _true_slope(m: Motion, z: np.ndarray) -> np.ndarray:
    """$dE/ds$ for any `A`: a token is seen, and sees."""
    x, _ = z
    G = np.exp(ref.bilinear(m.A)(x, x))
    seen = (G * m.w[None, :]) @ x @ m.A
    seeing = (G.T * m.w[None, :]) @ x @ m.A.T
    return m.w @ np.sum(velocity(m, z)[0] * (seen + seeing), axis=1) / 2


@statement(
    "castin2025:prop-5.4-dirac",
    source="Proof of Proposition 5.4",
    claim=r"$\partial_s^2 E(\delta_z) = \frac14 e^{-Az \cdot z} \nabla\psi^\top "
    r"((z^\top V^\top B^{-1} V z) I - V) B \nabla\psi$.",
    hypotheses=r"$A$ symmetric, $B$ symmetric positive definite, $V = -BA$",
)
def at_diracs(case: Case, *, share: float = 1) -> tuple[Check, ...]:
    """One atom: the formula and the six integrals, the library's softmax in them.

    Against a complex step of the slope of the energy along the geodesic's equations.
    """
    # The first term of the formula has the factor `share`.
    checks = []
    for k in range(4):
        m = symmetric(motion(case.rng(f"Dirac {k}"), n=1))
        (z,), (p,) = m.x, m.p
        V = -m.B @ m.A
        turn = z @ V.T @ np.linalg.solve(m.B, V @ z)
        form = p @ (share * turn * np.eye(2) - V) @ m.B @ p
        formula = np.exp(-m.A @ z @ z) * form / 4
        exact, whole = second_derivative(m), _integrals(m, last=1)
        checks += [
            gap(f"Dirac {k + 1}", formula, exact, **ROUNDED),
            gap(f"six integrals {k + 1}", whole, exact, **ROUNDED),
        ]
    return tuple(checks)


at_diracs.refuted_if("the first term counts twice", seen_by=("Dirac…",), share=2)


@statement(
    "castin2025:prop-5.4",
    source="Proposition 5.4",
    claim=r"$E = \frac12 \iint G$ is not geodesically convex.",
    hypotheses=r"$V \succ 0$ commutes with $B \succ 0$, $A = -B^{-1}V$",
    remark=r"C32: the text says so for any parameters; its proof covers these.",
)
def not_convex(case: Case, *, sign: float = 1) -> tuple[Check, ...]:
    """Second derivatives at Diracs and at clusters of six atoms near the origin.

    By complex steps; and the library's energy at the middle of geodesics that SciPy
    integrates, over the mean of the ends.
    """
    count = case.pick(5, 40)
    diracs = [
        second_derivative(_commuting(case.rng(f"Dirac {k}"), sign=sign, n=1))
        for k in range(count)
    ]
    clusters = [_commuting(case.rng(f"{k}"), sign=sign, n=6) for k in range(count)]
    seconds = [second_derivative(m) for m in clusters]
    chords = [_chord(m) for m in clusters[:3]]
    return (
        bounded("largest d²E at Diracs", max(diracs), "<=", 0),
        bounded("largest d²E at clusters", max(seconds), "<=", 0),
        bounded("least rise over a chord", min(chords), ">=", 0),
    )


not_convex.refuted_if(r"$V \prec 0$", sign=-1)


def _commuting(rng: np.random.Generator, *, sign: float, n: int) -> Motion:
    """Atoms within .02 of the origin; `V` with this sign, commuting with `B`."""
    m = motion(rng, n=n)
    _, U = np.linalg.eigh(m.B)
    V = sign * (U * rng.uniform(0.5, 2.0, size=2)) @ U.T
    x = 0.02 * np.tanh(rng.normal(size=(n, 2)))
    return m._replace(A=-np.linalg.solve(m.B, V), x=x, H=spd(rng, 2))


def _chord(m: Motion) -> float:
    """The library's E at the middle of a geodesic, over the mean of its ends.

    The geodesic ends before an atom leaves the surroundings of the origin.
    """
    speeds = np.linalg.norm(velocity(m, np.stack([m.x, m.p]))[0], axis=1)
    end = min(0.3, WAY / float(np.max(speeds)))
    E = [
        library(m._replace(x=z[0]))[2]
        for z in path_of(m, np.array([0.0, end / 2, end]))
    ]
    return (E[1] - (E[0] + E[2]) / 2) / end**2
