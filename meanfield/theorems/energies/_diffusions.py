"""Flows of the heat, Fokker–Planck and porous medium equations."""

from scipy.special import beta, betaincinv

from meanfield.energies import Entropy, GradientFlow, QuadraticPotential
from meanfield.flows import flow
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks
from meanfield.theorems._protocols import gap
from meanfield.theorems.library.attentions import gaussian
from meanfield.theorems.library.energies import ROUNDING, spd
from meanfield.theorems.library.gaussian_flows import FLOW_SLACK
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference import formulas
from meanfield.tokens import Tokens

TIMES = np.array([0.0, 0.2, 0.7])


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
    label, expected = "Fokker–Planck velocity", -ref.gradient(down, x)
    return gap(label, velocity, expected, tolerance=1e-9, why=why)


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
        centres, expected = [], []
        for t in TIMES:
            E = (U * np.exp(-rates * t)) @ U.T
            noise = np.where(rates > 0, -np.expm1(-2 * safe * t) / safe, 2 * t)
            centres.append(c + E @ (mean - c))
            expected.append(E @ Y @ Y.T @ E + (U * noise) @ U.T)
        yield gap(f"{label} flow, mean", means, centres, **FLOW_SLACK)
        yield gap(f"{label} flow, covariance", covariances, expected, **FLOW_SLACK)


def spread(*, power: float) -> Check:
    r"""Checks how quantiles spread in the flow of $\int\rho^m/(m-1)$, $m = 5/2$.

    The reference is the self-similar solution of $\partial_t\rho = \Delta\rho^p$, where
    `power` is $p$; it spreads as $t^{1/(p+1)}$ and has the profile $(1 -
    x^2)_+^{1/(p-1)}$. The energy of $n$ cells of mass $w$ and widths $g$ is $\sum
    w^mg^{1-m}/(m-1)$.
    """
    m, spreads = 2.5, []
    for n in (40, 80):
        start = 2 * betaincinv(m / (m - 1), m / (m - 1), np.arange(n + 1) / n) - 1
        masses = np.full(n + 1, 1 / n)
        masses[[0, -1]] /= 2

        def rate(_: float, x: Array, masses: Array = masses) -> Array:
            force = (masses[1] / np.diff(x)) ** m
            return -np.diff(force, prepend=0, append=0) / masses

        # An explicit step is stable only if it is shorter than a squared cell width.
        end = formulas.rk4(rate, start, _age(m), n**2 // 2)
        spreads.append(np.sqrt(masses @ end**2 / (masses @ start**2)))
    error = 2 * abs(spreads[1] / spreads[0] - 1)
    why = f"twice the change {error:.1g} from half as many quantiles"
    wide = 2 ** (1 / (power + 1))
    return gap("porous medium: spread", spreads[1], wide, tolerance=error, why=why)


def _age(m: float) -> float:
    r"""Time at which the self-similar solution has the support $[-1, 1]$.

    The density $\rho = h(1 - x^2)_+^{1/(m-1)}$ of mass one has the velocity
    $-\partial_x\frac m{m-1}\rho^{m-1} = \frac{2m}{m-1}h^{m-1}x = x/((m+1)t)$.
    """
    h = 1 / beta(0.5, m / (m - 1))
    return (m - 1) / (2 * m * (m + 1) * h ** (m - 1))
