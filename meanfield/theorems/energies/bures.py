"""The Bures–Wasserstein geometry of Gaussians."""

from collections.abc import Callable

from scipy.integrate import quad

from meanfield import energies
from meanfield.measures import Gaussian, Points
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap, order
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.energies import spd
from meanfield.theorems.library.measures import gaussian_measures, roots
from meanfield.theorems.reference import energies as ref
from meanfield.theorems.reference.formulas import sqrtm_psd
from meanfield.theorems.reference.measures import wasserstein

WHY = (
    "rounding of 1e2 operations on matrices of condition at most 1e3: 1e-11 covers "
    "both sides"
)
MATRICES = Slack(tolerance=1e-11, why=WHY)
NEWTON = Slack(
    tolerance=1e-11,
    why="the step ends with Newton's method from a point within sqrt(eps): 1e-15 times "
    "the condition of the Hessian, and the rounding of 1e3 operations",
)
Step = Callable[[energies.AbstractEnergy, Gaussian, float], Gaussian]
_squared_distance = jax.jit(energies.bures_squared)


def _explicit(energy: energies.AbstractEnergy, start: Gaussian, tau: float) -> Gaussian:
    """Explicit Euler step of the flow; such a step is not a minimising movement."""
    mean_rate, factor_rate, _ = att.gaussian_rates(energies.GradientFlow(energy), start)
    return Gaussian(start.mean + tau * mean_rate, start.factor + tau * factor_rate)


@statement(
    "castin2025:eq-5.1",
    source="eqs. (5.1)–(5.3), §5.1",
    claim=r"Minimising movements $\mu_{k+1} = \mathrm{argmin}_\nu F(\nu) + "
    r"\frac{1}{2\tau} D^2(\mu_k, \nu)$ follow the gradient flow to first order in "
    r"$\tau$; $D^2/\tau$ is the least action over $[0, \tau]$.",
    hypotheses=r"$D = W_2$, Gaussians",
    aliases=("castin2025:eq-5.2", "castin2025:eq-5.3"),
    control=(
        "an explicit Euler step of the same flow, which is not a minimiser",
        {"step": _explicit},
        (
            "mean after a step",
            "covariance after a step",
            "mean before a Sinkhorn step",
            "covariance before it",
        ),
    ),
)
def minimising_movement(case: Case, *, step: Step = energies.jko_step) -> Checks:
    r"""Compares the library's implicit (JKO) steps with closed forms.

    For a quadratic potential with four rates, a step is compared with the resolvent. In
    the direction of rate $r$, $1/(\tau r)$ such steps must shrink the mean by a factor
    that differs from $1/e$ by a term of first order in $\tau r$. For the Sinkhorn
    energy, a step must satisfy the Euler–Lagrange equation, in which NumPy computes the
    gradients by complex steps. The library's squared distance divided by $\tau$ is
    compared with the actions of the straight path and of fifty other paths. Norms of
    velocities on Gaussians, and matrix square roots with their derivatives, are checked
    too.
    """
    yield from _steps(case, step)
    # An implicit step for the Sinkhorn energy must satisfy the Euler–Lagrange equation.
    rng, tau = case.rng("implicit"), 0.3
    Q, K = rng.normal(size=(2, 2, 2)) / 2
    mean, Y = rng.normal(size=2), np.linalg.cholesky(spd(rng, 2))
    start = att.gaussian(mean, Y)
    end = step(energies.SinkhornEnergy(Q, K, 0.7), start, tau)
    alpha, Sigma = np.asarray(end.mean), np.asarray(end.covariance)
    mean_gradient, S = ref.gaussian_gradients(alpha, Sigma, K.T @ Q / 0.7)
    mean_before, back = alpha + tau * mean_gradient, np.eye(2) + 2 * tau * S
    yield gap("mean before a Sinkhorn step", mean_before, mean, **NEWTON)
    yield gap("covariance before it", back @ Sigma @ back, Y @ Y.T, **NEWTON)
    yield from _action(case)
    yield from gaussian_measures(case)
    yield from roots(case)


def _bures(S0: Array, S1: Array) -> float:
    """The library's squared distance between centred Gaussians."""
    return float(_squared_distance(jnp.asarray(S0), jnp.asarray(S1)))


def _map(S0: Array, S1: Array) -> Array:
    """Optimal map between centred Gaussians, computed in NumPy."""
    root = sqrtm_psd(S0)
    inverse = np.linalg.inv(root)
    return inverse @ sqrtm_psd(root @ S1 @ root) @ inverse


def _steps(case: Case, step: Step) -> Checks:
    """Compares implicit steps for a quadratic potential with closed forms."""
    rng, tau = case.rng("step"), 0.1
    rates = np.array([2.0, 1.0, 0.5, 0.25])
    U, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    H, c = (U * rates) @ U.T, rng.normal(size=4)
    mean, Y = rng.normal(size=4), rng.normal(size=(4, 4)) / 2 + np.eye(4)
    start = att.gaussian(mean, Y)
    end = step(energies.QuadraticPotential((H + H.T) / 2, c), start, tau)
    shrink = np.linalg.inv(np.eye(4) + tau * H)
    Sigma = shrink @ Y @ Y.T @ shrink
    ratios = U.T @ (np.asarray(end.mean) - c) / (U.T @ (mean - c))
    errors = np.abs(ratios ** (1 / (tau * rates)) - np.exp(-1))
    yield gap("mean after a step", end.mean, c + shrink @ (mean - c), **NEWTON)
    yield gap("covariance after a step", end.covariance, Sigma, **NEWTON)
    yield order("steps to time 1", tau * rates, errors, 1, names=("τ", "error"))


def _action(case: Case) -> Checks:
    r"""Compares $D^2/\tau$ with actions of the straight path and of 50 other paths."""
    rng, tau = case.rng("action"), 0.3
    S0, S1 = spd(rng, 3), spd(rng, 3)
    T, minimum = _map(S0, S1), _bures(S0, S1) / tau
    speed = (T - np.eye(3)) / tau
    action = tau * np.trace(speed @ S0 @ speed.T)  # the integrand is constant in time
    roots, actions = (sqrtm_psd(S1), np.linalg.inv(sqrtm_psd(S0))), []
    for _ in range(50):
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        speed = (roots[0] @ R @ roots[1] - np.eye(3)) / tau
        actions.append(tau * np.trace(speed @ S0 @ speed.T))
    yield gap("D²/τ", minimum, action, **MATRICES)
    yield compare("least action of other paths", min(actions) / minimum, ">=", 1.0)


@statement(
    "castin2025:sec-5.2-translation",
    source="§5.2",
    claim=r"$W_2^2(\mu, \nu) = W_2^2(\mu_0, \nu_0) + |m - m'|^2$ with the means taken "
    r"out; of Diracs on the line, $d_{A,V}(\delta_p, \delta_q) = \int_p^q "
    r"e^{a x^2/2} dx / \sqrt{B}$, which is not invariant by translation.",
    control=(
        "only half of each mean is subtracted",
        {"share": 0.5},
        ("clouds", "Gaussians"),
    ),
)
def translation(case: Case, *, share: float = 1) -> Checks:
    """Compares squared distances of measures before and after centring.

    POT computes W_2 between clouds. The library's Bures distance is compared with the
    cost of the optimal map over nodes. Gauss–Legendre quadrature gives the distance of
    two Diracs in the library's twisted metric. It is compared with SciPy's quadrature
    of the closed form.
    """
    # Centring both clouds must reduce $D^2$ by the squared distance between their
    # means.
    rng = case.rng("clouds")
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(7, 2)) @ spd(rng, 2)
    x, y = x - np.mean(x, 0) + 2, y - np.mean(y, 0) - np.array([0.5, 1.0])
    m, n = share * np.mean(x, 0), share * np.mean(y, 0)
    mean_distance = np.sum((m - n) ** 2)
    decomposed_square = wasserstein(x - m, y - n) ** 2 + mean_distance
    S0, S1 = spd(rng, 3), spd(rng, 3)
    a, b = rng.normal(size=(2, 3))
    T, (z, w) = _map(S0, S1), ref.standard_nodes(3, 4)
    nodes = share * a + z @ np.linalg.cholesky(S0).T
    images = b + (nodes - share * a) @ T.T
    cost = w @ np.sum((images - nodes) ** 2, axis=1)
    expected = _bures(S0, S1) + np.sum((a - b) ** 2)
    yield gap("clouds", wasserstein(x, y) ** 2, decomposed_square, **MATRICES)
    yield gap("Gaussians", expected, cost, **MATRICES)
    for p in (0.0, 2.0):
        exact, _ = quad(lambda x: np.exp(0.4 * x**2) / np.sqrt(1.7), p, p + 1)
        actual = _twisted_distance(p, p + 1, a=0.8, B=1.7)
        why = "Gauss–Legendre with 24 nodes of an entire function: rounding"
        yield gap(f"d(δ_{p:g}, δ_{p + 1:g})", actual, exact, tolerance=1e-11, why=why)


@translation.register_misprint(
    "C15",
    "C16",
    claim=r"$D(\mu, \nu) = D(\mu_0, \nu_0)^2 + |m - m'|^2$, the case for the "
    "twisted distance too.",
    correction=r"$D^2(\mu, \nu) = D^2(\mu_0, \nu_0) + |m - m'|^2$ for $W_2$; the "
    "twisted distance is not invariant by translation.",
    counterexample=r"Diracs at 0 and 3; twisted, $a = 0.6$, $B = 1$: $d(\delta_0, "
    r"\delta_1)$ and $d(\delta_2, \delta_3)$",
)
def _(_: Case) -> Counterexample:
    inner, outer = _twisted_distance(0, 1), _twisted_distance(2, 3)
    exact = lambda p, q: quad(lambda x: np.exp(0.3 * x**2), p, q)[0]
    ratio = exact(2, 3) / exact(0, 1)
    why = "quadrature of entire functions: rounding"
    slack, actual = Slack(tolerance=1e-11, why=why), outer / inner
    invariance = compare("d(δ₂,δ₃)/d(δ₀,δ₁)", actual, "=", 1, **slack)
    lengths = gap("ratio of lengths", actual, ratio, **slack)
    return Counterexample((_squares(power=1), invariance), (_squares(power=2), lengths))


@eqx.filter_jit
def _speeds(x: JaxArray, a: JaxArray, B: JaxArray) -> JaxArray:
    """Norms of unit velocities at Diracs, in the library's twisted metric."""

    def speed(point: JaxArray) -> JaxArray:
        mu = Points.uniform(point[None, None])
        unit = jnp.ones((1, 1))
        score = Dot(a * unit, unit)
        # Any energy would do.
        energy = energies.QuadraticPotential(unit, jnp.full(1, 9.0))
        field = energies.TwistedMetric(score, B * unit).descent(energy, mu)
        length = jnp.sqrt(-energies.dissipation(energy, mu, field))
        return length / jnp.abs(field(mu.tokens)[0, 0])

    return jax.vmap(speed)(x)


def _twisted_distance(p: float, q: float, *, a: float = 0.6, B: float = 1.0) -> float:
    r"""Distance $d_{A,V}(\delta_p, \delta_q)$ in the library's metric by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    x = (p + q) / 2 + (q - p) / 2 * nodes
    speeds = _speeds(jnp.asarray(x), jnp.asarray(a), jnp.asarray(B))
    return float((q - p) / 2 * weights @ np.asarray(speeds))


def _squares(*, power: float) -> Check:
    """Compares $D^p$ with $D_0^2 + |m - m'|^2$, for two Diracs at distance 3."""
    unit = np.eye(1)
    cost = wasserstein(np.array([[0.0]]), np.array([[3.0]]))
    return gap("D", cost**power, _bures(unit, unit) + 9, tolerance=1e-13, why=WHY)
