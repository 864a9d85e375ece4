"""Flows of densities: heat, Fokker–Planck, porous medium."""

from collections.abc import Callable

from meanfield.energies import (
    AbstractEnergy,
    AbstractMetric,
    Entropy,
    InternalEnergy,
    QuadraticPotential,
    TwistedMetric,
    Wasserstein,
    energies,
)
from meanfield.measures import FixedBox, Grid
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, Rng, Unary, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref

from ._diffusions import EXPONENT, drift, flux, gaussian_flows, grid_flows

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
        ("porous medium…", "derivative of F…"),
    ),
)
def mccann(case: Case, *, odd: float = 0, power: float = 2.5) -> Checks:
    r"""Compares the library's first variations and flows with NumPy and closed forms.

    The energy is the sum of the entropy, of $\int\rho^m/(m-1)$ and of the energies of
    a quadratic potential and of the interaction $W = e^{-z^2/0.8}$. On the line, for a
    Gaussian and for a density on a grid, the first variation, paired with a change of
    density, is compared with a complex step of the energy in NumPy. In the plane, the
    library's Fokker–Planck velocity, and its flux of $U = \rho^m/(m-1)$, are compared
    with NumPy gradients. The library's flows of Gaussians in the plane, with and
    without a potential, are compared with matrix exponentials. Its flows of densities
    on a grid are compared with mixtures of normal laws, and with the self-similar
    solution of the porous medium equation.
    """
    yield from _mccann(case, odd=odd)
    yield flux(case, power=power)
    yield drift(case)
    yield from gaussian_flows(case)
    yield from grid_flows(case, power=power)


@mccann.register_misprint(
    "C15",
    claim=r"$\delta F = U'(\rho) + V + W * \rho$ for every $W$.",
    correction=r"$\delta F = U'(\rho) + V + W * \rho$ for even $W$; in general, with "
    r"$\frac12 (W(z) + W(-z))$ for $W$.",
    counterexample=r"$W(z) = e^{-z^2} + z$; the energy of $z$ is zero",
)
def _(case: Case) -> Counterexample:
    misprint, correction = (_skew_interaction(case, share=share) for share in (0, 0.5))
    return Counterexample((misprint,), (correction,))


class _Line:
    """A Gaussian density on a grid, and a perturbation `nu` of total mass zero."""

    def __init__(self, rng: Rng, reach: float = 9) -> None:
        self.mean, self.deviation = rng.normal() / 2, rng.uniform(0.7, 1.3)
        u = np.linspace(-reach, reach, 801)
        self.x = self.mean + self.deviation * u
        self.step = self.deviation * 2 * reach / (len(u) - 1)
        self.rho = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi) / self.deviation
        bump = np.sin(u + rng.normal()) + u**2 / 3
        self.nu = self.rho * (bump - self.step * (self.rho @ bump))
        self.H, self.c = rng.uniform(0.5, 1.5), rng.normal()

    def energy(self, kernel: Callable, rho: Array) -> Array:
        """Sum of the entropy and of internal, potential and interaction energies."""
        W = kernel(self.x[:, None] - self.x[None, :])
        V = self.H * (self.x - self.c) ** 2 / 2
        local = np.sum(rho * np.log(rho) + rho**EXPONENT / (EXPONENT - 1) + rho * V)
        return self.step * local + self.step**2 * (rho @ W @ rho) / 2

    def derivative(self, kernel: Unary, rho: Array) -> float:
        r"""Derivative of $F(\rho + h\nu)$ with respect to $h$ at $h = 0$."""
        F = lambda rho: self.energy(kernel, rho)
        return float(ref.directional_derivative(F, rho, self.nu))

    def skew_density(self, x: Array) -> Array:
        """A density at points, which is not Gaussian."""
        u = (x - self.mean) / self.deviation
        size = (1 + 0.7 * np.sin(2 * u)) / np.sqrt(2 * np.pi) / self.deviation
        return size * np.exp(-(u**2) / 2)


def _mccann(case: Case, *, odd: float) -> Checks:
    r"""Compares $U' + V + W * \rho$, paired with `nu`, with a derivative of F.

    `odd` adds an odd part to W.
    """
    line = _Line(case.rng("line"))
    even = lambda z: np.exp(-(z**2) / 0.8)
    odd_part = lambda z: odd * z * np.exp(-(z**2) / 0.8)
    z = line.x[:, None] - line.x[None, :]
    parts = _energies(line)
    mean, factor = np.array([line.mean]), np.array([[line.deviation]])
    results = [
        lib.evaluate_on_gaussian(e, mean, factor, probes=line.x[:, None]) for e in parts
    ]
    total = sum(float(result.energy) for result in results)
    variation = sum(result.variation for result in results)
    # A grid twice as wide has cells twice as wide, and shares the compiled program.
    energy, wide = sum(parts[1:], parts[0]), _Line(case.rng("line"), reach=18)
    fine, coarse = _grid_pairing(line, energy), _grid_pairing(wide, energy)
    why = "the change from cells twice as wide: fifteen times the error, of order four"
    cells = Slack(tolerance=abs(coarse / fine - 1), why=why)
    for label, pairing, rho, slack in (
        ("derivative of F", line.step * line.nu @ variation, line.rho, GRID),
        ("derivative of F on a grid", fine, line.skew_density(line.x), cells),
    ):
        formula = pairing + line.step**2 * line.nu @ odd_part(z) @ rho
        expected = line.derivative(lambda z: even(z) + odd_part(z), rho)
        yield gap(label, formula, expected, **slack)
    yield gap("F", total, line.energy(even, line.rho), **GRID)


def _energies(line: _Line) -> tuple[AbstractEnergy, ...]:
    r"""The library's parts of F, with the interaction $W = e^{-z^2/0.8}$."""
    unit = np.eye(1)
    return (
        energies["entropy"](unit, unit, unit),
        InternalEnergy(EXPONENT),
        QuadraticPotential(line.H * unit, np.array([line.c])),
        energies["interaction-l2"](unit, unit, unit, epsilon=0.8),
    )


def _grid_pairing(line: _Line, energy: AbstractEnergy) -> float:
    """The library's first variation of a skew density on a grid, paired with `nu`."""
    edges = np.append(line.x - line.step / 2, line.x[-1] + line.step / 2)
    density = lambda x: line.skew_density(x[:, 0])
    mu = Grid.from_function([edges], density, box=FixedBox())
    return float(line.step * line.nu @ np.asarray(_cell_variation(energy, mu)))


@eqx.filter_jit
def _cell_variation(energy: AbstractEnergy, mu: Grid) -> JaxArray:
    return energy.first_variation(mu, mu.points().tokens)


def _skew_interaction(case: Case, *, share: float) -> Check:
    """Checks the first variation for $W(z) = e^{-z^2} + z$, which is not even.

    `share` is the weight of the mirror image $W(-z)$ in the formula.
    """
    line = _Line(case.rng("line"))
    kernel = lambda z: np.exp(-(z**2)) + z
    z = line.x[:, None] - line.x[None, :]
    W = (1 - share) * kernel(z) + share * kernel(-z)
    pairing = line.step**2 * line.nu @ W @ line.rho
    zero = line.derivative(lambda z: 0 * z, line.rho)
    expected = line.derivative(kernel, line.rho) - zero
    return gap("derivative", pairing, expected, **GRID, scale=1.0)


@statement(
    "uw2023:wasserstein-gradient",
    source="Wasserstein gradient flows",
    claim=r"$\nabla_W F = \nabla \delta F$, and the flow of $F$ is "
    r"$\partial_t \rho = \mathrm{div}(\rho \nabla \delta F)$.",
    control=(
        "the flow is that of another, twisted metric",
        {"metric": lambda: TwistedMetric(Dot(np.eye(2), np.eye(2)), np.eye(2))},
        ("velocity of points",),
    ),
)
def wasserstein_gradient(
    case: Case, *, metric: Callable[[], AbstractMetric] = Wasserstein
) -> Checks:
    """Compares the library's flow of a quadratic potential with a NumPy gradient.

    On points, velocities are compared. For a Gaussian, the rates of the mean and of the
    covariance are compared. The Hessian is not the identity and the centre is not zero.
    """
    rng = case.rng("potential")
    s, H, c = lib.setting(rng), lib.spd(rng, 2), rng.normal(size=2)
    energy, _, down = lib.evaluate_potential(H, c, x=s.x, w=s.w, metric=metric())
    gradient = ref.gradient(lambda z: np.sum(ref.quadratic(z, H, c)), s.x)
    mean, Y = rng.normal(size=2), rng.normal(size=(2, 3))
    library = lib.evaluate_on_gaussian(QuadraticPotential(H, c), mean, Y, probes=s.x)
    half = H @ Y @ Y.T
    moment = energies["second-moment"](H, H, H)
    plain = lib.evaluate_on_gaussian(moment, mean, Y, probes=s.x)
    size = (mean @ mean + np.sum(Y**2)) / 2
    yield lib.rounding_gap("second moment", plain.energy, size)
    yield lib.rounding_gap("velocity of points", down, -gradient)
    yield lib.rounding_gap("mean of a Gaussian", library.mean_rate, -H @ (mean - c))
    yield lib.rounding_gap("covariance", library.covariance_rate, -(half + half.T))
    yield lib.rounding_gap("energy", energy, s.w @ ref.quadratic(s.x, H, c))


@statement(
    "uw2023:heat-flow",
    source="Wasserstein gradient flows",
    claim=r"The flow of $\int \rho \log\rho$ is $\partial_t \rho = \Delta \rho$: "
    r"$\Sigma' = 2I$.",
    control=(
        r"another energy whose flow spreads, $-\frac12\int|x|^2d\rho$",
        {"energy": lambda d: -QuadraticPotential(jnp.eye(d))},
        ("Σ', d =…", "dissipation…"),
    ),
)
def heat_flow(
    case: Case, *, energy: Callable[[int], AbstractEnergy] = lambda _: Entropy()
) -> Checks:
    r"""Compares the library's flow of the entropy on Gaussians with closed forms.

    In one to three dimensions these are $\Sigma' = 2I$, the entropy, its first
    variation $\log\rho$ and its dissipation $-\mathrm{tr}\,\Sigma^{-1}$. The entropy of
    a singular Gaussian must be infinite.
    """
    for d in (1, 2, 3):
        rng = case.rng(f"d={d}")
        mean, Y = rng.normal(size=d), rng.normal(size=(d, d)) / 2 + np.eye(d)
        x = rng.normal(size=(4, d))
        library = lib.evaluate_on_gaussian(energy(d), mean, Y, probes=x)
        Sigma = Y @ Y.T
        z, log_det = x - mean, np.linalg.slogdet(2 * np.pi * Sigma)[1]
        log_rho = -(np.sum((z @ np.linalg.inv(Sigma)) * z, axis=1) + log_det) / 2
        entropy, loss = -(log_det + d) / 2, -np.trace(np.linalg.inv(Sigma))
        why = "rounding of 1e2 operations times the condition of Σ: 1e-13 cond"
        slack = Slack(tolerance=1e-13 * np.linalg.cond(Sigma), why=why)
        yield gap(f"Σ', d = {d}", library.covariance_rate, 2 * np.eye(d), **slack)
        yield gap(f"log ρ, d = {d}", library.variation, log_rho, **slack)
        yield gap(f"entropy, d = {d}", library.energy, entropy, scale=1.0, **slack)
        yield gap(f"dissipation, d = {d}", library.power, loss, **slack)
    # A Gaussian of rank one in the plane has no density, so its entropy is infinite.
    mean, y = case.rng("singular").normal(size=(2, 2))
    is_finite = lib.gaussian_energy(Entropy(), mean, np.outer(y, y)) < np.inf
    yield compare("finite entropies without a density", is_finite, "<=", 0)
