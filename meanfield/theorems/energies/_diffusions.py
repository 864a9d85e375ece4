"""Flows of the heat, Fokker–Planck and porous medium equations."""

from functools import partial
from typing import NamedTuple

from scipy.special import beta, betainc, ndtr

from meanfield.energies import Entropy, GradientFlow, InternalEnergy, QuadraticPotential
from meanfield.flows import flow
from meanfield.measures import FixedBox, Gaussian, Grid
from meanfield.theorems._arrays import Array, JaxArray, Unary, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library.attentions import gaussian
from meanfield.theorems.library.energies import ROUNDING, spd
from meanfield.theorems.library.gaussian_flows import flow_gap
from meanfield.theorems.reference import energies as ref
from meanfield.tokens import Tokens

TIMES = np.array([0.0, 0.2, 0.7])
EXPONENT = 2.5  # of the porous medium
N_CELLS = 80
CENTRE = 0.2  # of the potential on the line


@eqx.filter_jit
def _fokker_planck(
    H: JaxArray, c: JaxArray, mu: Gaussian, x: JaxArray
) -> tuple[JaxArray, tuple[JaxArray, JaxArray]]:
    """The library's Fokker–Planck velocities at `x`, and its flow at `TIMES`.

    The flow is given by means and factors of Gaussians.
    """
    V = QuadraticPotential(H, c)
    energy = 2.0 * (Entropy() + V) + -Entropy() - V
    dynamics = GradientFlow(energy)
    velocity = dynamics.field(0.0, mu)(Tokens(x))
    return velocity, flow(dynamics, mu, TIMES).coordinates


def drift(case: Case) -> Check:
    r"""Compares the library's Fokker–Planck field with $-\nabla(\log\rho + V)$."""
    H, c, mean, Y = _ornstein_uhlenbeck(case)
    x = case.rng("probes").normal(size=(5, 2))
    h, centre, probes = map(jnp.asarray, (H, c, x))
    velocity, _ = _fokker_planck(h, centre, gaussian(mean, Y), probes)
    precision = np.linalg.inv(Y @ Y.T)
    down = lambda z: np.sum(ref.quadratic(z, -precision, mean) + ref.quadratic(z, H, c))
    why = ROUNDING + ", times the condition of Σ, at most 1e3"
    label, reference = "Fokker–Planck velocity", -ref.gradient(down, x)
    return gap(label, velocity, reference, tolerance=1e-9, why=why)


def _ornstein_uhlenbeck(case: Case) -> tuple[Array, ...]:
    """Random potential (Hessian and centre) and Gaussian (mean and factor)."""
    rng = case.rng("drift")
    H, Y = spd(rng, 2), rng.normal(size=(2, 2)) + np.eye(2)
    return H, rng.normal(size=2), rng.normal(size=2), Y


def gaussian_flows(case: Case) -> Checks:
    r"""Compares the library's flows of Gaussians with closed forms.

    For the Fokker–Planck equation, $\alpha = c + e^{-Ht}(\alpha_0 - c)$ and $\Sigma =
    e^{-Ht}\Sigma_0e^{-Ht} + 2\int_0^te^{-2Hs}ds$; the case $H = 0$ is the heat
    equation.
    """
    H, c, mean, Y = _ornstein_uhlenbeck(case)
    for label, matrix in (("Fokker–Planck", H), ("heat", 0 * H)):
        mu, (h, centre, probes) = gaussian(mean, Y), map(jnp.asarray, (matrix, c, Y))
        means, factors = map(np.asarray, _fokker_planck(h, centre, mu, probes)[1])
        covariances = factors @ np.swapaxes(factors, 1, 2)
        rates, U = np.linalg.eigh(matrix)
        safe = np.where(rates > 0, rates, 1)
        centres, reference = [], []
        for t in TIMES:
            E = (U * np.exp(-rates * t)) @ U.T
            noise = np.where(rates > 0, -np.expm1(-2 * safe * t) / safe, 2 * t)
            centres.append(c + E @ (mean - c))
            reference.append(E @ Y @ Y.T @ E + (U * noise) @ U.T)
        yield flow_gap(f"{label} flow, mean", means, centres)
        yield flow_gap(f"{label} flow, covariance", covariances, reference)


def flux(case: Case, *, power: float) -> Check:
    r"""Compares the library's $\rho\nabla\delta F$ with $\nabla\rho^p$ of a Gaussian.

    The energy is $\int\rho^m/(m-1)$, and `power` is $p$.
    """
    _, _, mean, Y = _ornstein_uhlenbeck(case)
    x = mean + case.rng("porous").normal(size=(5, 2)) @ Y.T
    precision, width = np.linalg.inv(Y @ Y.T), 2 * np.pi * abs(np.linalg.det(Y))
    square = lambda z: np.sum(((z - mean) @ precision) * (z - mean), axis=1)
    rho = lambda z: np.exp(-square(z) / 2) / width
    mu, energy = gaussian(mean, Y), InternalEnergy(EXPONENT)
    slopes = energy.gradient(mu, Tokens(jnp.asarray(x)))
    actual = rho(x)[:, None] * np.asarray(slopes)
    reference = ref.gradient(lambda z: np.sum(rho(z) ** power), x)
    why = ROUNDING + ", times the condition of Σ, at most 1e3"
    return gap("porous medium flux", actual, reference, tolerance=1e-9, why=why)


class _Spreading(NamedTuple):
    """A density on the line at two times, and the energy whose flow it follows."""

    name: str
    shares: tuple[float, float]  # factors of the internal energy and of the entropy
    H: float  # Hessian of the potential
    half: float  # half-width of the box
    time: float  # the time between both
    start: Unary  # cumulative distribution at the start
    end: Unary  # cumulative distribution at the end


def grid_flows(case: Case, *, power: float) -> Checks:
    r"""Compares the library's flows of densities on grids with closed forms.

    One program serves three flows: its energy is the sum of multiples of the internal
    energy, of the entropy and of a potential. A box twice as wide has cells twice as
    wide.
    """
    for run in (_porous_medium(power), *_mixtures(case)):
        fine, coarse = (_cell_masses(run, scale * run.half) for scale in (1, 2))
        sums, quarter = fine.reshape(-1, 2).sum(axis=1), N_CELLS // 4
        change = np.sum(np.abs(sums - coarse[quarter:-quarter]))
        exact = np.diff(run.end(_edges(run.half)))
        distance = np.sum(np.abs(fine - exact))
        why = "the change from cells twice as wide: thrice the error, of second order"
        slack = Slack(tolerance=float(change), why=why)
        yield compare(f"{run.name} flow on a grid", distance, "<=", 0, **slack)


def _edges(half: float) -> Array:
    return np.linspace(-half, half, N_CELLS + 1)


def _cell_masses(run: _Spreading, half: float) -> Array:
    """The library's masses of cells at the end of a flow."""
    edges, (internal, entropy) = _edges(half), map(jnp.asarray, run.shares)
    V = QuadraticPotential(run.H * jnp.eye(1), jnp.full(1, CENTRE))
    energy = internal * InternalEnergy(EXPONENT) + entropy * Entropy() + V
    density = np.diff(run.start(edges)) / np.diff(edges)
    mu = Grid.from_density([edges], density, box=FixedBox())
    path = flow(GradientFlow(energy), mu, np.array([0, run.time]))
    return np.asarray(path.final.masses).ravel()


def _porous_medium(power: float) -> _Spreading:
    r"""The self-similar solution of $\partial_t\rho = \Delta\rho^p$; `power` is $p$.

    It spreads as $t^{1/(p+1)}$, with the profile $(1 - x^2)_+^{1/(p-1)}$. Its time
    doubles, and it starts with the exponent of the energy.
    """

    def cumulative(p: float, width: float) -> Unary:
        a = p / (p - 1)
        return lambda x: betainc(a, a, np.clip((1 + x / width) / 2, 0, 1))

    m, width = EXPONENT, 2 ** (1 / (power + 1))
    # At time t the density is $\rho = h(1 - x^2)_+^{1/(m-1)}$, of mass one, with the
    # velocity $-\partial_x\frac m{m-1}\rho^{m-1} = \frac{2m}{m-1}h^{m-1}x$, which is
    # $x/((m+1)t)$.
    h = 1 / beta(0.5, m / (m - 1))
    t = (m - 1) / (2 * m * (m + 1) * h ** (m - 1))
    start, end = cumulative(m, 1.0), cumulative(power, width)
    return _Spreading("porous medium", (1.0, 0.0), 0.0, 1.5, t, start, end)


def _mixtures(case: Case) -> list[_Spreading]:
    """Mixtures of two normal laws, which spread with and without a potential."""
    rng, t = case.rng("mixture"), 0.3
    means, deviations = rng.uniform(-1, 1, size=2), rng.uniform(0.4, 0.6, size=2)
    shares = np.array([0.4, 0.6])
    flows = []
    for name, H in (("Fokker–Planck", 1.3), ("heat", 0.0)):
        E = np.exp(-H * t)
        noise = -np.expm1(-2 * H * t) / H if H else 2 * t
        m, s = CENTRE + E * (means - CENTRE), np.sqrt(E**2 * deviations**2 + noise)
        law = lambda x, m, s: ndtr((x[:, None] - m) / s) @ shares
        start, end = partial(law, m=means, s=deviations), partial(law, m=m, s=s)
        flows.append(_Spreading(name, (0.0, 1.0), H, 5.0, t, start, end))
    return flows
