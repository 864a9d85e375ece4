"""Convexity of the interaction energy along twisted geodesics."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import compare, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.energies import ROUNDING, rounding_gap, spd
from meanfield.theorems.reference import energies as ref

from ._motion import Motion, geodesic, mass, motion, path_of
from .geodesics import velocity

Prepare = Callable[[Motion], Motion]
WAY = 0.1  # largest displacement along a chord; beyond about 0.3, E can be convex


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
    remark=r"The arrangement of the six integrals is our own; the erratum concerns the "
    r"factor $G(x, y)$ of the last one, which does not depend on it.",
    control=("$A$ is not symmetric", {"prepare": lambda m: m}, ("d²E, draw…",)),
)
def second_variation(case: Case, *, prepare: Prepare = lambda m: m.symmetric) -> Checks:
    """Compares six integrals over weighted atoms with a second derivative of E.

    The integrals use the library's softmax attention. The library's energy is
    differentiated along geodesics of the library's metric. The first and second
    derivatives of the energy are also compared with complex steps along the geodesic
    equations.
    """
    m = motion(case.rng("motion 0")).symmetric
    library = geodesic(m)
    energy = ref.interaction(m.x, m.w, ref.bilinear(m.A))
    yield from _formula(case, prepare, last=1)
    yield rounding_gap("E", library.energy, energy)
    yield rounding_gap("dE", library.derivative, _energy_derivative(m, m.z))
    bend = ref.directional_derivative(
        lambda z: _energy_derivative(m, z), m.z, velocity(m, m.z)
    )
    yield rounding_gap("d²E", library.second, bend)


@second_variation.register_misprint(
    "C23",
    claim=r"The factor $G(x, y)$ is missing from the last double integral, here read "
    r"as $\frac18 \iint [|\nabla\psi|_B^2 / g^2 (x) + |\nabla\psi|_B^2 / g^2 (y)] "
    r"\Gamma(x) \cdot B^{-1} V y$.",
    correction=r"The same times $G(x, y)$.",
    counterexample="five random atoms of random weights in the plane",
)
def _(case: Case) -> Counterexample:
    return Counterexample(*(_formula(case, last=k) for k in (0, 1)))


def _energy_derivative(m: Motion, z: Array) -> Array:
    """Derivative $dE/ds$ along the geodesic through `z`, for symmetric `A`."""
    x, _ = z
    G = np.exp(ref.bilinear(m.A)(x, x))
    gradient = (G * m.w[None, :]) @ x @ m.A
    return m.w @ np.sum(velocity(m, z)[0] * gradient, axis=1)


def _integrals(m: Motion, *, last: float) -> float:
    r"""Sum of the six integrals, with $V = -BA$ and the library's softmax $\Gamma$.

    `last` is the power of $G(x, y)$ in the sixth integral; it is 1 in the claim.
    """
    V, x, p, w = -m.B @ m.A, m.x, m.p, m.w
    cloud, softmax = Cloud(x, w), Parameters(m.A, np.eye(2), V).attention("softmax")
    Gamma = np.asarray(att.velocity(softmax, cloud, cloud))
    G, g = np.exp(ref.bilinear(m.A)(x, x)), mass(m, x)
    pairs = w[:, None] * w[None, :]
    forms = p @ V @ x.T  # entry (i, j) pairs momentum i with atom j
    drift, lengths = np.sum(p * Gamma, axis=1), np.sum((p @ m.B) * p, axis=1) / g**2
    inner = Gamma @ np.linalg.solve(m.B, V) @ x.T
    mass_products = g[:, None] * g[None, :]
    doubles = (
        forms**2 / g[:, None] ** 2
        + forms * forms.T / mass_products
        - drift[:, None] * forms.T / mass_products
        - p @ V @ m.B @ p.T / mass_products
    ) * G
    sixth = (lengths[:, None] + lengths[None, :]) * inner * G**last / 2
    return float((np.sum(pairs * (doubles + sixth)) - w @ (drift**2 / g)) / 4)


def _formula(
    case: Case, prepare: Prepare = lambda m: m.symmetric, *, last: float
) -> Checks:
    for k in range(case.pick(3, 10)):
        m = prepare(motion(case.rng(f"motion {k}")))
        exact = geodesic(m).second
        why = ROUNDING + "; cancellation of the six is less than tenfold"
        actual = _integrals(m, last=last)
        yield gap(f"d²E, draw {k + 1}", actual, exact, tolerance=1e-11, why=why)


@statement(
    "castin2025:prop-5.4-dirac",
    source="Proof of Proposition 5.4",
    claim=r"$\partial_s^2 E(\delta_z) = \frac14 e^{-Az \cdot z} \nabla\psi^\top "
    r"((z^\top V^\top B^{-1} V z) I - V) B \nabla\psi$.",
    hypotheses=r"$A$ symmetric, $B$ symmetric positive definite, $V = -BA$",
    control=("$A$ is not symmetric", {"prepare": lambda m: m}),
)
def dirac_variation(case: Case, *, prepare: Prepare = lambda m: m.symmetric) -> Checks:
    """Compares the formula for one atom, and six integrals, with a second derivative.

    The integrals use the library's softmax attention. The derivative is the second
    derivative of the library's energy along a geodesic of the library's metric.
    """
    for k in range(4):
        m = prepare(motion(case.rng(f"Dirac {k}"), n=1))
        (z,), (p,) = m.x, m.p
        V = -m.B @ m.A
        turn = z @ V.T @ np.linalg.solve(m.B, V @ z)
        form = p @ (turn * np.eye(2) - V) @ m.B @ p
        formula = np.exp(-m.A @ z @ z) * form / 4
        exact, whole = geodesic(m).second, _integrals(m, last=1)
        yield rounding_gap(f"Dirac {k + 1}", formula, exact)
        yield rounding_gap(f"six integrals {k + 1}", whole, exact)


@statement(
    "castin2025:prop-5.4",
    source="Proposition 5.4",
    claim=r"$E = \frac12 \iint G$ is not geodesically convex.",
    hypotheses=r"$V \succ 0$ commutes with $B \succ 0$, $A = -B^{-1}V$",
    remark=r"C32: the text claims it for any parameters; its proof covers these.",
    control=(r"$V \prec 0$", {"sign": -1}),
)
def non_convexity(case: Case, *, sign: float = 1) -> Checks:
    """Checks that second derivatives of the library's energy are negative.

    The derivatives are taken along the library's geodesics, at Diracs and at clusters
    of six atoms near the origin. On geodesics that SciPy integrates, the energy at the
    middle must exceed the mean of the energies at the ends.
    """
    count = case.pick(5, 40)
    draw = lambda name, n: _commuting(case.rng(name), sign=sign, n=n)
    diracs = [draw(f"Dirac {k}", 1) for k in range(count)]
    clusters = [draw(f"{k}", 6) for k in range(count)]
    chords = [_chord(m) for m in clusters[:3]]
    why = "−1 at the origin itself; within .02 of it by less than a tenth"
    yield compare("largest d²E at Diracs", _bends(diracs), "<=", -0.9, why=why)
    yield compare("largest d²E at clusters", _bends(clusters), "<=", -0.9, why=why)
    yield compare("least rise over a chord", min(chords), ">=", 0)


def _commuting(rng: Rng, *, sign: float, n: int) -> Motion:
    """Motion of atoms near the origin; `V` commutes with `B` and has this `sign`."""
    m = motion(rng, n=n)
    _, U = np.linalg.eigh(m.B)
    V = sign * (U * rng.uniform(0.5, 2.0, size=2)) @ U.T
    x = 0.02 * np.tanh(rng.normal(size=(n, 2)))
    return m._replace(A=-np.linalg.solve(m.B, V), x=x, H=spd(rng, 2))


def _bends(motions: list[Motion]) -> float:
    r"""Largest second derivative of E, relative to its size at the origin.

    That size is $\frac14|\bar p\cdot VB\bar p|$, where $\bar p$ is the mean momentum.
    """
    ratios = []
    for m in motions:
        mean = m.w @ m.p
        size = abs(mean @ m.B @ m.A @ m.B @ mean) / 4
        ratios.append(float(geodesic(m).second / size))
    return max(ratios)


def _chord(m: Motion) -> float:
    """Library's E at the middle of a geodesic, minus the mean of E at both ends.

    The result is divided by the squared duration. The geodesic is so short that all
    atoms stay near the origin.
    """
    speeds = np.linalg.norm(geodesic(m).velocity[0], axis=1)
    end = min(0.3, WAY / float(np.max(speeds)))
    path = path_of(m, np.array([0.0, end / 2, end]))
    E = [geodesic(m, z).energy for z in path]
    return float((E[1] - (E[0] + E[2]) / 2) / end**2)
