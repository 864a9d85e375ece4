"""The interaction energy of Gaussians, and its twisted flow."""

from typing import NamedTuple

from scipy.integrate import quad
from scipy.stats import norm

from meanfield.attention import attentions
from meanfield.energies import Interaction
from meanfield.measures import Gaussian
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref

NODES = 40
QUADRATURE = (
    "the integral over one variable in closed form, over the other 40 Gauss–Hermite "
    "nodes along each direction of tilts below 1/2: 1e-11 by self-convergence"
)


@statement(
    "castin2025:F-alpha-sigma",
    source="§5.4",
    claim=r"$F(\alpha, \Sigma) = \frac12 \det(I - A\Sigma A^\top\Sigma)^{-1/2} "
    r"\exp(\frac12 \alpha^\top [(A + \Sigma^{-1})^\top (\Sigma^{-1} - A\Sigma "
    r"A^\top)^{-1} (A + \Sigma^{-1}) - \Sigma^{-1}] \alpha)$.",
    hypotheses=r"$\Sigma^{-1} \succ A\Sigma A^\top$; else $F = +\infty$",
    control=("the exponent lacks its factor 1/2", {"half": 1.0}, ("formula, d =…",)),
)
def interaction_of_gaussian(case: Case, *, half: float = 0.5) -> Checks:
    """Compares the closed form of E, and the library's energy and flow, with integrals.

    The integrals are exact in one variable and use Gauss–Hermite nodes in the other.
    Their gradients are complex steps. The library's first variation is compared too.
    Parameters are not symmetric, and means are not zero.
    """
    for d in (1, 2):
        yield from _dimension_checks(case, d, half=half)


@interaction_of_gaussian.register_misprint(
    "C21",
    claim=r"The formula with $|\det(I - A\Sigma A^\top\Sigma)|$, unconditionally.",
    correction=r"$F = +\infty$ unless $\Sigma^{-1} \succ A\Sigma A^\top$: the "
    "truncated integrals grow without bound.",
    counterexample=r"$d = 1$, $s = 1$, $a = 1.2$: truncated to $|x| \leq 5, 10, 15$",
)
def _(_: Case) -> Counterexample:
    unit = np.eye(1)
    printed_value = _paper_energy(np.zeros(1), unit, 1.2 * unit, half=0.5)
    # The integral over y is in closed form.
    density = lambda x: norm.pdf(x) * np.exp((1.2 * x) ** 2 / 2) / 2
    integrals = [quad(density, -r, r, limit=200)[0] for r in (5.0, 10.0, 15.0)]
    energy = Interaction(Dot(1.2 * unit, unit))
    finite = float(np.isfinite(lib.gaussian_energy(energy, np.zeros(1), unit)))
    growth = np.min(np.diff(np.log(integrals)))
    return Counterexample(
        (compare("integral over |x| ≤ 5", integrals[0], "<=", printed_value),),
        (
            compare("finite energies of the library", finite, "<=", 0),
            compare("log growth from radius to radius", growth, ">=", 1.0),
        ),
    )


def _paper_energy(mean: Array, Sigma: Array, A: Array, *, half: float) -> float:
    """Closed form of the energy in the paper; `half` is the factor in its exponent."""
    I, P = np.eye(len(mean)), np.linalg.inv(Sigma)
    inner = (A + P).T @ np.linalg.solve(P - A @ Sigma @ A.T, A + P) - P
    determinant = np.abs(np.linalg.det(I - A @ Sigma @ A.T @ Sigma))
    return float(np.exp(half * mean @ inner @ mean) / np.sqrt(determinant) / 2)


def _dimension_checks(case: Case, d: int, *, half: float) -> Checks:
    # Draw Q, K, a mean and a factor with $\|Y^\top AY\| = 1/2$ and `A` not symmetric.
    rng = case.rng(f"d={d}")
    Q, K = rng.normal(size=(2, d + 1, d))
    Y = np.linalg.cholesky(lib.spd(rng, d))
    size = np.linalg.norm(Y.T @ K.T @ Q @ Y, 2) / 0.7
    K, mean = K / (2 * size), rng.uniform(0.4, 0.9, size=d)
    A, nodes = K.T @ Q / 0.7, ref.standard_nodes(d, NODES)
    F = lambda m, factor: ref.interaction_gaussian(nodes, m, factor, A)
    reference = F(mean, Y)
    mean_gradient = ref.gradient(lambda m: F(m, Y), mean)
    turn = ref.gradient(lambda factor: F(mean, factor), Y) @ Y.T
    probes = case.rng("probes").normal(size=(4, d))
    x, w = mean + nodes[0] @ Y.T, nodes[1]
    level = ref.interaction_variation(probes, x, w, ref.bilinear(A))
    energy = Interaction(Dot(Q, K, 0.7))
    library = lib.evaluate_on_gaussian(energy, mean, Y, probes=probes)
    formula = _paper_energy(mean, Y @ Y.T, A, half=half)
    slack = Slack(tolerance=1e-9, why=QUADRATURE)
    yield gap(f"formula, d = {d}", formula, reference, **slack)
    yield gap(f"energy, d = {d}", library.energy, reference, **slack)
    yield gap(f"α', d = {d}", library.mean_rate, -mean_gradient, **slack)
    yield gap(f"Σ', d = {d}", library.covariance_rate, -(turn + turn.T), **slack)
    yield gap(f"δF, d = {d}", library.variation, level, **slack)


@statement(
    "castin2025:sec-5.4-gaussian-flow",
    source="§5.4",
    claim=r"For centred Gaussians $M_\Sigma\Sigma' = -\nabla_\Sigma F$: the metric "
    r"pairs $\Sigma' = V\Sigma A\Sigma + \Sigma A\Sigma V^\top$ with every direction "
    r"$H$ to $-dF(H)$. On the line, $s' = -M_s^{-1} F'(s) = 2avs^2$, $M_s = "
    r"\frac{1}{4sB} (1 - a^2 s^2)^{-3/2}$; with a mean, $\alpha'$ is not "
    r"$-\nabla_\alpha F$.",
    hypotheses=r"$A$ symmetric, $B = -VA^{-1} \succ 0$, $\Sigma^{-1} \succ A\Sigma A$; "
    r"for $d > 1$ it fails if $A$ is not symmetric (C20)",
    control=(
        "the metric lacks the integral of the scores",
        {"score_weight": 0},
        ("M_s", "−M⁻¹F'(s)", "MΣ' = −∇F…"),
    ),
)
def gaussian_flow(case: Case, *, score_weight: float = 1) -> Checks:
    r"""Compares MΣ' with −∇F, for the library's softmax attention and energy.

    In d = 2 and 3 matrices do not commute. Gauss–Hermite nodes give the metric's
    product of the velocity of softmax with each linear field $x \mapsto Lx$, also with
    those that leave the Gaussian as it is. It must be minus the derivative of F along
    $L$. With $A$ not symmetric the two must differ. On the line, SciPy's quadrature
    gives the twisted metric M, which is also compared with its closed form, and F'
    comes from differences of the library's energy.
    """
    yield from _line_checks(case, score_weight)
    for d in (2, 3):
        A, B, Y = _space(case, d)
        yield from _space_checks((A + A.T) / 2, B, Y, score_weight=score_weight)
    A, B, Y = _space(case, 2)
    product, descent = _metric_product(A, B, Y, score_weight=score_weight)
    error = np.max(np.abs(product - descent)) / np.max(np.abs(descent))
    yield compare("error of MΣ' = −∇F, A not symmetric", error, ">=", 0.01)


def _line_checks(case: Case, score_weight: float) -> Checks:
    line = _line(case, mean=0.0)
    unit, h = np.eye(1), 1e-4
    F = Interaction(Dot(line.a * unit, unit))
    variances = line.s + h * np.array([-2, -1, 1, 2])
    E = [lib.gaussian_energy(F, np.zeros(1), np.sqrt(s) * unit) for s in variances]
    derivative = (E[0] - 8 * E[1] + 8 * E[2] - E[3]) / (12 * h)
    M = _metric(line, score_weight=score_weight)
    B, left = -line.v / line.a, 1 - (line.a * line.s) ** 2
    closed_form = line.s * left**-1.5 / (4 * line.s**2 * B)
    reference = 2 * line.a * line.v * line.s**2
    why = "a difference of fourth order, h = 1e-4: h⁴ and rounding 1e-16/h; quadrature"
    slack = Slack(tolerance=1e-9, why=why + " to 1e-12")
    yield gap("−M⁻¹F'(s)", -derivative / M, line.variance_rate, **slack)
    yield gap("M_s", M, closed_form, **slack)
    yield gap("2avs²", line.variance_rate, reference, tolerance=1e-13, why=lib.ROUNDING)


@gaussian_flow.register_misprint(
    "C22",
    claim=r"Softmax attention on Gaussians is (5.9) for $F$, $d_{A,V}$: $\alpha' = "
    r"-\nabla_\alpha F$.",
    correction=r"$\alpha' = v(1 + as)\alpha$: so only of centred Gaussians.",
    counterexample=r"$d = 1$, $\alpha = 0.9$, random $a$, $v$ and $s$",
)
def _(case: Case) -> Counterexample:
    # The rate of the mean is compared with $-\partial_\alpha F$, with
    # $-B\partial_\alpha F$ and with $v(1 + as)\alpha$.
    line = _line(case, mean=0.9)
    factor = np.array([[np.sqrt(line.s)]])
    nodes = ref.standard_nodes(1, NODES)
    F = lambda m: ref.interaction_gaussian(nodes, m, factor, line.a * np.eye(1))
    (gradient,) = ref.gradient(F, np.array([line.mean]))
    reference = line.v * (1 + line.a * line.s) * line.mean
    slack = Slack(tolerance=1e-9, why=QUADRATURE)
    return Counterexample(
        (
            gap("α' = −∂F/∂α", line.mean_rate, -gradient, **slack),
            gap("α' = −B ∂F/∂α", line.mean_rate, line.v / line.a * gradient, **slack),
        ),
        (gap("α' = v(1 + as)α", line.mean_rate, reference, **slack),),
    )


def _space(case: Case, d: int) -> tuple[Array, Array, Array]:
    r"""A matrix `A`, a metric `B` and a factor `Y` with $\|Y^\top AY\| = 1/2$."""
    rng = case.rng(f"d = {d}")
    A, Y = rng.normal(size=(d, d)), np.linalg.cholesky(lib.spd(rng, d))
    return A / (2 * np.linalg.norm(Y.T @ A @ Y, 2)), lib.spd(rng, d), Y


def _space_checks(A: Array, B: Array, Y: Array, *, score_weight: float) -> Checks:
    d, V, Sigma = len(A), -B @ A, Y @ Y.T
    product, descent = _metric_product(A, B, Y, score_weight=score_weight)
    _, factor_rate = _rates(A, V, np.zeros(d), Y)
    half, reference = factor_rate @ Y.T, V @ Sigma @ A @ Sigma
    rounding = Slack(tolerance=1e-13, why=lib.ROUNDING)
    yield gap(f"MΣ' = −∇F, d = {d}", product, descent, tolerance=1e-9, why=QUADRATURE)
    yield gap(f"Σ', d = {d}", half + half.T, reference + reference.T, **rounding)


def _metric_product(
    A: Array, B: Array, Y: Array, *, score_weight: float
) -> tuple[Array, Array]:
    r"""Products of softmax with the linear fields, and minus the derivatives of F.

    Both are matrices, whose entry (i, j) is for the field $x \mapsto x_je_i$. The
    product of $v$ and $w$ is $\int v\cdot B^{-1}w\int e^{y\cdot Ax}d\mu(y)d\mu(x)$.
    """
    V, mean = -B @ A.T, np.zeros(len(A))
    _, factor_rate = _rates(A, V, mean, Y)
    nodes, weights = ref.standard_nodes(len(A), NODES)
    x, tilts = nodes @ Y.T, nodes @ Y.T @ A.T @ Y
    masses = np.exp(score_weight * np.sum(tilts**2, axis=1) / 2)
    v = nodes @ factor_rate.T
    product = np.linalg.solve(B, (v.T * (weights * masses)) @ x)
    return product, -np.asarray(_energy_gradient(A, Y)) @ Y.T


@eqx.filter_jit
def _energy_gradient(A: Array, factor: Array) -> JaxArray:
    """Gradient of the library's energy of a centred Gaussian in its factor."""
    mean = jnp.zeros(len(A))
    F = Interaction(Dot(A, jnp.eye(len(A))))
    return jax.grad(lambda Y: F(Gaussian(mean, Y)))(jnp.asarray(factor))


class _Line(NamedTuple):
    """Scalars $a, v, s$, a mean $m$, and the library's rates at $N(m, s)$."""

    a: float
    v: float
    s: float
    mean: float
    mean_rate: float
    variance_rate: float


def _rates(A: Array, V: Array, mean: Array, factor: Array) -> tuple[Array, Array]:
    """The library's rates of the mean and of the factor under softmax attention."""
    attention = attentions["softmax"](A, np.eye(len(mean)), V)
    mean_rate, factor_rate, _ = att.gaussian_rates(
        attention, att.gaussian(mean, factor)
    )
    return np.asarray(mean_rate), np.asarray(factor_rate)


def _line(case: Case, *, mean: float) -> _Line:
    rng = case.rng("line")
    a, v, s = rng.uniform(0.4, 0.8), -rng.uniform(0.3, 0.8), rng.uniform(0.5, 1)
    parts = ([[a]], [[v]], [mean], [[np.sqrt(s)]])
    rate, factor = _rates(*(np.array(part) for part in parts))
    return _Line(a, v, s, mean, float(rate[0]), float(2 * factor[0, 0] * np.sqrt(s)))


def _metric(line: _Line, *, score_weight: float) -> float:
    r"""Metric $\int v^2\int e^{axy}d\mu(y)d\mu(x)/B$ for a velocity $v$ with $s' = 1$.

    The integral is computed by quadrature. If `score_weight` is 0, the number 1
    replaces the inner integral.
    """
    left = 1 - (line.a * line.s) ** 2
    wide = 12 * np.sqrt(line.s / left)  # the integrand is below 1e-31 farther out

    def density(x: float) -> float:
        inner = score_weight * (line.a * x) ** 2 * line.s / 2
        speed = x / (2 * line.s)
        return speed**2 * np.exp(inner - x**2 / (2 * line.s))

    total = quad(density, -wide, wide, epsabs=1e-13, epsrel=1e-12)[0]
    return total / np.sqrt(2 * np.pi * line.s) / (-line.v / line.a)
