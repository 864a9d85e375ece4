"""Flows of densities: heat, Fokker–Planck, porous medium."""

from collections.abc import Callable

from meanfield.energies import (
    AbstractEnergy,
    AbstractMetric,
    Entropy,
    QuadraticPotential,
    Twisted,
    Wasserstein,
    energies,
)
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, Rng, Unary, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref

from ._moving import carried, drift, spread

GRID = Slack(
    tolerance=1e-11,
    why="the trapezoidal rule on a smooth function that has decayed to 1e-16 at the "
    "ends, of step a tenth of its width: rounding of 800² terms, 1e-12 with a margin",
)


@statement(
    "castin2025:rem-5.1",
    source="Remark 5.1",
    claim=r"For $F(\rho) = \int U(\rho) + \int V \rho + \frac12 \iint W(x - y) "
    r"\rho(x) \rho(y)$, $\delta F = U'(\rho) + V + W * \rho$; heat, Fokker–Planck and "
    r"porous medium equations are its Wasserstein flows.",
    hypotheses=r"$W$ even",
    control=(
        "W has an odd part; and the porous medium has another power",
        {"odd": 1, "power": 2},
        ("porous medium…", "derivative of F"),
    ),
)
def mccann(case: Case, *, odd: float = 0, power: float = 2.5) -> Checks:
    r"""Entropy, a quadratic potential and $W = e^{-z^2/0.8}$ on a Gaussian of the line.

    The library's variations, paired with a change of density on a grid, against a
    complex step of the energy on that grid; the library's Fokker–Planck velocity in the
    plane, and the flux of $U = \rho^m/(m-1)$, against gradients in NumPy. Then they
    move: Gaussians in the plane by the library's flow, with a potential and without,
    against exponentials; quantiles of the line by the flow of $\int U$ in NumPy against
    the self-similar solution of the porous medium equation.
    """
    yield from _mccann(case, odd=odd)
    # $\rho\nabla U'(\rho) = \nabla\rho^m$ for $U = \rho^m/(m-1)$, in NumPy.
    x, m = case.rng("porous").normal(size=(20, 1)), 2.5
    rho = lambda z: np.sum(np.exp(-(z**2)) * (2 + np.sin(z)), axis=1)
    flux = rho(x) * ref.along(lambda z: m * rho(z) ** (m - 1) / (m - 1), x, 0 * x + 1)
    expected = ref.along(lambda z: rho(z) ** power, x, 0 * x + 1)
    yield gap("porous medium flux", flux, expected, tolerance=1e-13, why=lib.ROUNDING)
    yield drift(case)
    yield from carried(case)
    yield spread(power=power)


@mccann.misprinted(
    "C15",
    printed=r"$\delta F = U'(\rho) + V + W * \rho$ for every $W$.",
    corrected=r"$\delta F = U'(\rho) + V + W * \rho$ for even $W$; in general, with "
    r"$\frac12 (W(z) + W(-z))$ for $W$.",
    counterexample=r"$W(z) = e^{-z^2} + z$; the energy of $z$ is zero",
)
def _(case: Case) -> Counterexample:
    printed, corrected = (_lopsided(case, mirrored=share) for share in (0, 0.5))
    return Counterexample((printed,), (corrected,))


class _Line:
    """A Gaussian on a grid of the line, and a change of it of mass zero."""

    def __init__(self, rng: Rng) -> None:
        self.mean, self.deviation = rng.normal() / 2, rng.uniform(0.7, 1.3)
        u = np.linspace(-9, 9, 801)
        self.x = self.mean + self.deviation * u
        self.step = self.x[1] - self.x[0]
        self.rho = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi) / self.deviation
        bump = np.sin(u + rng.normal()) + u**2 / 3
        self.nu = self.rho * (bump - self.step * (self.rho @ bump))
        self.H, self.c = rng.uniform(0.5, 1.5), rng.normal()

    def energy(self, kernel: Callable, rho: Array) -> Array:
        """Entropy, potential and interaction by `kernel` of a density."""
        W = kernel(self.x[:, None] - self.x[None, :])
        V = self.H * (self.x - self.c) ** 2 / 2
        local = np.sum(rho * np.log(rho) + rho * V)
        return self.step * local + self.step**2 * (rho @ W @ rho) / 2

    def along(self, kernel: Unary) -> float:
        r"""$dF/dh$ at $\rho + h\nu$."""
        return float(ref.along(lambda rho: self.energy(kernel, rho), self.rho, self.nu))


def _mccann(case: Case, *, odd: float) -> Checks:
    r"""$U' + V + W * \rho$ paired with `nu`; `odd` weighs an odd part of W."""
    line = _Line(case.rng("line"))
    even = lambda z: np.exp(-(z**2) / 0.8)
    odd_part = lambda z: odd * z * np.exp(-(z**2) / 0.8)
    z = line.x[:, None] - line.x[None, :]
    # The library's energy and its variation paired with `nu`, $W = e^{-z^2/0.8}$.
    one = np.eye(1)
    parts = (
        energies["entropy"](one, one, one),
        QuadraticPotential(line.H * one, np.array([line.c])),
        energies["interaction-l2"](one, one, one, epsilon=0.8),
    )
    mean, factor = np.array([line.mean]), np.array([[line.deviation]])
    known = [lib.on_gaussian(e, mean, factor, probes=line.x[:, None]) for e in parts]
    total = sum(float(each.energy) for each in known)
    paired = line.step * line.nu @ sum(each.variation for each in known)
    formula = paired + line.step**2 * line.nu @ odd_part(z) @ line.rho
    expected = line.along(lambda z: even(z) + odd_part(z))
    yield gap("derivative of F", formula, expected, **GRID)
    yield gap("F", total, line.energy(even, line.rho), **GRID)


def _lopsided(case: Case, *, mirrored: float) -> Check:
    """The interaction alone, $W(z) = e^{-z^2} + z$, mixed with its mirror image."""
    line = _Line(case.rng("line"))
    kernel = lambda z: np.exp(-(z**2)) + z
    z = line.x[:, None] - line.x[None, :]
    W = (1 - mirrored) * kernel(z) + mirrored * kernel(-z)
    paired = line.step**2 * line.nu @ W @ line.rho
    expected = line.along(kernel) - line.along(lambda z: 0 * z)
    return gap("derivative", paired, expected, **GRID, scale=1.0)


@statement(
    "uw2023:wasserstein-gradient",
    source="Wasserstein gradient flows",
    claim=r"$\nabla_W F = \nabla \delta F$, and the flow of $F$ is "
    r"$\partial_t \rho = \mathrm{div}(\rho \nabla \delta F)$.",
    control=(
        "the flow is that of another metric, twisted by the scores of the tokens",
        {"metric": lambda: Twisted(Dot(np.eye(2), np.eye(2)), np.eye(2))},
        ("velocity of points",),
    ),
)
def wasserstein_gradient(
    case: Case, *, metric: Callable[[], AbstractMetric] = Wasserstein
) -> Checks:
    """The library's flow of a quadratic potential, on points and on a Gaussian.

    Against the gradient of the potential, and the moments of its linear flow, in NumPy;
    with a Hessian that is not the identity and a centre that is not zero.
    """
    rng = case.rng("potential")
    s, H, c = lib.setting(rng), lib.spd(rng, 2), rng.normal(size=2)
    energy, _, down = lib.potential_of(H, c, x=s.x, w=s.w, metric=metric())
    gradient = ref.slope(lambda z: np.sum(ref.quadratic(z, H, c)), s.x)
    mean, Y = rng.normal(size=2), rng.normal(size=(2, 3))
    said = lib.on_gaussian(QuadraticPotential(H, c), mean, Y, probes=s.x)
    half = H @ Y @ Y.T
    moment = energies["second-moment"](H, H, H)
    plain = lib.on_gaussian(moment, mean, Y, probes=s.x)
    size = (mean @ mean + np.sum(Y**2)) / 2
    yield gap("second moment", plain.energy, size, **lib.ROUNDED)
    yield gap("velocity of points", down, -gradient, **lib.ROUNDED)
    yield gap("mean of a Gaussian", said.mean_rate, -H @ (mean - c), **lib.ROUNDED)
    yield gap("covariance", said.covariance_rate, -(half + half.T), **lib.ROUNDED)
    yield gap("energy", energy, s.w @ ref.quadratic(s.x, H, c), **lib.ROUNDED)


@statement(
    "uw2023:heat-flow",
    source="Wasserstein gradient flows",
    claim=r"The flow of $\int \rho \log\rho$ is $\partial_t \rho = \Delta \rho$: "
    r"$\Sigma' = 2I$.",
    control=(
        r"another energy that spreads, $-\frac12\int|x|^2d\rho$",
        {"energy": lambda d: -QuadraticPotential(jnp.eye(d))},
        ("Σ', d =…", "dissipation…"),
    ),
)
def heat_flow(
    case: Case, *, energy: Callable[[int], AbstractEnergy] = lambda _: Entropy()
) -> Checks:
    r"""The library's flow of the entropy on Gaussians of one to three dimensions.

    Against $\Sigma' = 2I$; entropy, its first variation $\log\rho$ and its dissipation
    $-\mathrm{tr}\,\Sigma^{-1}$ against closed forms in NumPy; and a singular Gaussian.
    """
    for d in (1, 2, 3):
        rng = case.rng(f"d={d}")
        mean, Y = rng.normal(size=d), rng.normal(size=(d, d)) / 2 + np.eye(d)
        x = rng.normal(size=(4, d))
        said = lib.on_gaussian(energy(d), mean, Y, probes=x)
        Sigma = Y @ Y.T
        z, log_det = x - mean, np.linalg.slogdet(2 * np.pi * Sigma)[1]
        log_rho = -(np.sum((z @ np.linalg.inv(Sigma)) * z, axis=1) + log_det) / 2
        entropy, loss = -(log_det + d) / 2, -np.trace(np.linalg.inv(Sigma))
        why = "rounding of 1e2 operations times the condition of Σ: 1e-13 cond"
        slack = Slack(tolerance=1e-13 * np.linalg.cond(Sigma), why=why)
        yield gap(f"Σ', d = {d}", said.covariance_rate, 2 * np.eye(d), **slack)
        yield gap(f"log ρ, d = {d}", said.variation, log_rho, **slack)
        yield gap(f"entropy, d = {d}", said.energy, entropy, scale=1.0, **slack)
        yield gap(f"dissipation, d = {d}", said.power, loss, **slack)
    # The entropy of a Gaussian of rank one in the plane, which has no density.
    mean, y = case.rng("singular").normal(size=(2, 2))
    flat = lib.on_gaussian(Entropy(), mean, np.outer(y, y), probes=np.zeros((4, 2)))
    finite = np.sum(flat.energy < np.inf)
    yield bounded("finite entropies without a density", finite, "<=", 0)
