"""Geodesics of the twisted metric, and convexity along them."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library.energies import rounding_gap
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference import formulas

from ._motion import Motion, geodesic, mass, motion, path_of

SOLVER = "DOP853 at rtol 1e-11 over unit time, amplified by less than 1e2"


@statement(
    "castin2025:lemma-5.3",
    source="Lemma 5.3",
    claim=r"Geodesics: $\partial_s \rho + \mathrm{div}(\rho B \nabla\psi / (2 G * "
    r"\rho)) = 0$ and $\partial_s \psi + \frac14 \nabla\psi \cdot B \nabla\psi / "
    r"(G * \rho) - \frac14 \int \nabla\psi \cdot B \nabla\psi / (G * \rho)^2 \, "
    r"G(y, x) \rho(y) dy = 0$.",
    hypotheses=r"$B$ symmetric positive definite, any $A$",
    control=(
        "the equation of ψ lacks its integral",
        {"nonlocal_term": 0},
        ("p' by …", "H along the solution"),
    ),
)
def geodesics(case: Case, *, nonlocal_term: float = 1) -> Checks:
    """Compares the equations of Lemma 5.3 for atoms with the library's geodesics.

    Geodesics of the library's metric are the Hamiltonian flow of its squared length,
    which JAX differentiates. The equations, evaluated by NumPy, must give the same
    velocities, and their solution by SciPy must conserve the Hamiltonian. Along the
    library's geodesic, the action must be stationary under sine perturbations and have
    a positive second variation.
    """
    m = motion(case.rng("motion"))
    # The lemma's equations must give the velocities of the library's Hamiltonian flow.
    library = geodesic(m)
    expected = velocity(m, m.z, nonlocal_term=nonlocal_term)
    momentum_rate = ref.gradient(lambda x: np.sum(_potential_change(m, x)), m.x)
    momentum_rate = momentum_rate + expected[0] @ m.H
    squares = np.sum((m.p @ m.B) * m.p, axis=1)
    yield rounding_gap("p' by the equation of ψ", momentum_rate, expected[1])
    yield rounding_gap("x' by the library", library.velocity[0], expected[0])
    yield rounding_gap("p' by the library", library.velocity[1], expected[1])
    yield rounding_gap("length", library.length, m.w @ (squares / mass(m, m.x)) / 4)
    # The library's Hamiltonian must stay constant along SciPy's solution.
    rate = lambda _, z: velocity(m, z, nonlocal_term=nonlocal_term)
    path = formulas.integrate(rate, m.z, np.linspace(0, 1, 5))
    values = [geodesic(m, z).length for z in path]
    start = np.full(5, values[0])
    yield gap("H along the solution", values, start, tolerance=1e-9, why=SOLVER)
    yield from _stationary(case, m)


def velocity(m: Motion, z: Array, *, nonlocal_term: float = 1.0) -> Array:
    r"""Velocities of positions and momenta, by the equations of the lemma.

    The equations are $x' = Bp/2g$ and $p'_i = \frac14\frac{|p_i|_B^2}{g_i^2}\nabla
    g(x_i) + \frac14\sum_j w_j\frac{|p_j|_B^2}{g_j^2}\nabla_2G(x_j, x_i)$;
    `nonlocal_term` multiplies the sum.
    """
    x, p = z
    G = np.exp(ref.bilinear(m.A)(x, x))  # entry (i, j) is for query i and key j
    g = G @ m.w
    squares = np.sum((p @ m.B) * p, axis=1) / (4 * g**2)
    self_force = squares[:, None] * ((G * m.w[None, :]) @ x @ m.A)
    pair_force = (G * (m.w * squares)[:, None]).T @ x @ m.A.T
    force = self_force + nonlocal_term * pair_force
    return np.stack([p @ m.B / (2 * g[:, None]), force])


def _potential_change(m: Motion, points: Array) -> Array:
    r"""Derivative $\partial_s\psi$ at `points`, by the lemma's second equation."""
    gradients = (points - m.c) @ m.H
    g = np.exp(ref.bilinear(m.A)(points, m.x)) @ m.w
    squares = np.sum((m.p @ m.B) * m.p, axis=1) / mass(m, m.x) ** 2
    integral = np.exp(ref.bilinear(m.A)(m.x, points)).T @ (m.w * squares)
    return -np.sum((gradients @ m.B) * gradients, axis=1) / (4 * g) + integral / 4


def _action(m: Motion, path: Array, bump: Array, waves: Array) -> Array:
    r"""Action $\iint x'\cdot B^{-1}x'\,g\,d\mu\,dt$ of the path plus a perturbation.

    `path` is given at Gauss–Legendre nodes. So are `waves`, which are a sine and its
    derivative.
    """
    _, weights = np.polynomial.legendre.leggauss(len(path))
    inverse, total = np.linalg.inv(m.B), np.zeros(())
    for z, wave, share in zip(path, waves, weights / 2, strict=True):
        x = z[0] + wave[0] * bump
        u = z[1] @ m.B / (2 * mass(m, z[0])[:, None]) + wave[1] * bump
        total = total + share * (m.w @ (np.sum((u @ inverse) * u, axis=1) * mass(m, x)))
    return total


def _stationary(case: Case, m: Motion) -> Checks:
    """Checks the first and second variation of the action under sine perturbations."""
    nodes = (np.polynomial.legendre.leggauss(24)[0] + 1) / 2
    path = path_of(m, np.concatenate([[0.0], nodes]))[1:]
    rng, first, second = case.rng("bumps"), [], []
    for turn in np.pi * np.arange(1, 4):
        bump = rng.normal(size=m.x.shape)
        wave = np.column_stack([np.sin(turn * nodes), turn * np.cos(turn * nodes)])
        value = lambda size, bump=bump, wave=wave: _action(m, path, bump, size * wave)
        first.append(abs(ref.directional_derivative(value, np.zeros(()), np.ones(()))))
        second.append(value(0.01) + value(-0.01) - 2 * value(0.0))
    first_variation = max(first) / _action(m, path, 0 * m.x, np.zeros((24, 2)))
    slack = Slack(tolerance=1e-8, why="24 Gauss nodes in time and " + SOLVER)
    yield compare("slope of the action", first_variation, "<=", 0, **slack)
    yield compare("least second variation", min(second), ">=", 0)
