"""First variations and gradient flows."""

from collections.abc import Callable

from meanfield import energies
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems.library import energies as lib
from meanfield.theorems.reference import energies as ref

PRINTED_CLAIM = r"$F(\mu + h\nu) = F(\mu) + h \int \delta F(\mu) \, d\mu + o(h)$."
CORRECTED_CLAIM = r"$F(\mu + h\nu) = F(\mu) + h \int \delta F(\mu) \, d\nu + o(h)$."
DATA = r"$F(\mu) = \frac12\int x^2 d\mu$, $\mu = \delta_1$, $\nu = \delta_2 - \delta_1$"


@statement(
    "castin2025:first-variation",
    source="§5.1",
    claim=CORRECTED_CLAIM,
    hypotheses=r"$\nu$ of total mass zero",
    control=(
        "tokens count as queries only, although scores are not symmetric",
        {"keys": 1.0},
        ("Sinkhorn energy", "interaction"),
    ),
)
def first_variation(case: Case, *, keys: float = 0.5) -> Checks:
    """Compares first variations with derivatives of energies computed in NumPy.

    There are three energies: an interaction with non-symmetric scores, the Sinkhorn
    energy, and the energy of a quadratic potential. The first variation of each is
    paired with a change of weights, and compared with a complex step in the weights.
    The interaction energies of a Gaussian, with L2 scores and with biases, are compared
    with the interaction energies of a cloud of Gauss–Hermite nodes.
    """
    yield from _variations(case, keys=keys)
    rng = case.rng("potential")
    s, H = lib.setting(rng), lib.spd(rng, 2)
    c, nu = rng.normal(size=2), rng.normal(size=len(s.w))
    _, variation, _ = lib.evaluate_potential(H, c, x=s.x, w=s.w)
    expected = _weight_derivative(lambda x, w: w @ ref.quadratic(x, H, c), s.x, s.w, nu)
    yield lib.rounding_gap("potential", nu @ np.asarray(variation), expected)
    yield from _any_potential(case)
    # The interaction of a Gaussian must agree with the interaction of a cloud, for the
    # scores $-|Qx - Ky|^2/\epsilon$ and $(Qx + q)\cdot(Ky + k)/\epsilon$.
    rng = case.rng("Gaussian")
    mean, Y = rng.normal(size=2) / 2, np.linalg.cholesky(lib.spd(rng, 2))
    Q, K = rng.normal(size=(2, 3, 2))
    Q, K = (M / (4 * np.linalg.norm(M @ Y, 2)) for M in (Q, K))
    q, k = case.rng("biases").normal(size=(2, 3)) / 4
    measure = (mean, Y, rng.normal(size=(4, 2)))
    distance_energy = energies.energies["interaction-l2"](Q, K, np.eye(2), epsilon=0.7)
    product_energy = energies.Interaction(Dot(Q, K, 0.7, query_bias=q, key_bias=k))
    product = lambda x, y: (x @ Q.T + q) @ (y @ K.T + k).T / 0.7
    yield from _cloud_checks("L2", distance_energy, ref.distance(Q, K, 0.7), measure)
    yield from _cloud_checks("dot", product_energy, product, measure)


def _weight_derivative(function: Callable, x: Array, w: Array, nu: Array) -> float:
    """Computes, in NumPy, the derivative of an energy with respect to weights."""
    return float(ref.directional_derivative(lambda w: function(x, w), w, nu))


def _variations(case: Case, *, keys: float) -> Checks:
    """Compares first variations paired with `nu` with derivatives in the weights.

    `keys` is the weight of the part of the variation in which tokens are keys; ½ is
    correct.
    """
    rng = case.rng("tokens")
    s = lib.setting(rng)
    s = s._replace(probes=s.x)
    nu = rng.normal(size=len(s.w))
    nu = nu - np.mean(nu)
    scores = ref.bilinear(s.scaled_A)
    exp, doubly = lib.evaluate_interaction(s), lib.evaluate_sinkhorn(s)
    one_sided = (2 * keys - 1) * (np.exp(scores(s.x, s.x)) @ s.w - exp.variation)
    f, g = ref.atom_potentials(s.x, s.w, scores)
    asymmetry = (1 - 2 * keys) * (f - g) / 2
    derivative = lambda energy: _weight_derivative(
        lambda x, w: energy(x, w, scores), s.x, s.w, nu
    )
    pairing = nu @ (exp.variation - one_sided)
    yield lib.rounding_gap("interaction", pairing, derivative(ref.interaction))
    pairing, expected = nu @ (doubly.variation + asymmetry), derivative(ref.sinkhorn)
    size = float(np.abs(nu) @ np.abs(doubly.variation))
    why = lib.POTENTIALS + ", relative to the terms of the pairing, which may cancel"
    yield gap("Sinkhorn energy", pairing, expected, scale=size, tolerance=1e-9, why=why)


def _cloud_checks(
    name: str,
    energy: energies.AbstractEnergy,
    scores: ref.Scores,
    measure: tuple[Array, ...],
) -> Checks:
    (mean, Y, probes), (z, w) = measure, ref.standard_nodes(2, 16)
    cloud = lambda m, factor: ref.interaction(m + z @ factor.T, w, scores)
    level = ref.interaction_variation(probes, mean + z @ Y.T, w, scores)
    turn = ref.gradient(lambda factor: cloud(mean, factor), Y) @ Y.T
    down = -ref.gradient(lambda m: cloud(m, Y), mean)
    library = lib.evaluate_on_gaussian(energy, mean, Y, probes=probes)
    why = "16 Gauss–Hermite nodes of tilts with |QY|, |KY| ≤ 1/4: 1e-12 and rounding"
    slack = Slack(tolerance=1e-10, why=why)
    yield gap(f"Gaussian, {name}, δF", library.variation, level, **slack)
    yield gap(f"Gaussian, {name}, F", library.energy, cloud(mean, Y), **slack)
    yield gap(f"Gaussian, {name}, α'", library.mean_rate, down, **slack)
    spread = -(turn + turn.T)
    yield gap(f"Gaussian, {name}, Σ'", library.covariance_rate, spread, **slack)


def _any_potential(case: Case) -> Checks:
    r"""Checks $\int U d\mu$ and its gradient flow, where U is not quadratic."""
    s = lib.setting(case.rng("any potential"))
    waves = energies.Potential(lambda y: jnp.sum(jnp.sin(y) * y[::-1] ** 2))
    total = 1.5 * waves - energies.QuadraticPotential(jnp.eye(2))
    mu, flow = Points.weighted(s.x, s.w), energies.GradientFlow(total)
    down = flow.field(0.0, mu)(mu.tokens)
    height = lambda x: 1.5 * np.sin(x) * x[:, ::-1] ** 2 - x * x / 2
    energy = lambda x: s.w @ np.sum(height(x), axis=1)
    expected = -ref.gradient(energy, s.x) / s.w[:, None]
    yield lib.rounding_gap("any potential, velocity", down, expected)
    yield lib.rounding_gap("any potential, energy", total(mu), energy(s.x))


def _second_moment(*, mu_share: float) -> Check:
    r"""Compares F's derivative along `nu` with $\int\delta F$ over `nu` or $\mu$."""
    x, w = np.array([[1.0], [2.0]]), np.array([1.0, 0.0])
    nu = np.array([-1.0, 1.0])
    _, variation, _ = lib.evaluate_potential(np.eye(1), np.zeros(1), x=x, w=w)
    pairing = (mu_share * w + (1 - mu_share) * nu) @ np.asarray(variation)
    expected = _weight_derivative(lambda x, w: w @ np.sum(x * x, axis=1) / 2, x, w, nu)
    return gap("derivative", pairing, expected, tolerance=1e-14, why=lib.ROUNDING)


@statement(
    "castin2025:eq-5.4",
    source="eqs. (5.4), (5.7), §5.1",
    claim=r"The flow of $F$ in the metric $G$ has velocity $-G(\nabla\delta F)$, and "
    r"$\frac{d}{dt} F = -\int G(\nabla\delta F) \cdot \nabla\delta F \, d\mu$.",
    hypotheses=r"$G(v) = Bv / \int e^{s(x, y)} d\mu(y)$, $B \succ 0$",
    aliases=("castin2025:eq-5.7",),
    control=(
        "the mass of the metric is that of the transposed scores",
        {"key_share": 1},
    ),
)
def metric_flow(case: Case, *, key_share: float = 0) -> Checks:
    """Compares the dissipation of the library's twisted flow with a quadratic form.

    The energy is an interaction with non-symmetric scores. The quadratic form of
    the metric is computed in NumPy. It is compared with the library's `dissipation`,
    and with a complex step of the energy along the library's velocities.
    """
    # The control changes `key_share`: it sums the kernel over queries instead of keys.
    rng = case.rng("tokens")
    s, B = lib.setting(rng), lib.spd(rng, 2)
    s = s._replace(probes=s.x)
    scores = ref.bilinear(s.scaled_A)

    def energy(x: Array) -> Array:
        return ref.interaction(x, s.w, scores)

    gradient = ref.gradient(energy, s.x) / s.w[:, None]
    kernel = np.exp(scores(s.x, s.x))
    mass = (1 - key_share) * (kernel @ s.w) + key_share * (kernel.T @ s.w)
    expected = -s.w @ (np.sum((gradient @ B) * gradient, axis=1) / mass)
    library = lib.evaluate_twisted(s, B)
    derivative = ref.directional_derivative(energy, s.x, library.field)
    yield lib.rounding_gap("dF/dt along the library's flow", derivative, expected)
    yield lib.rounding_gap("the library's dissipation", library.power, expected)


@first_variation.register_misprint(
    "C15", claim=PRINTED_CLAIM, correction=CORRECTED_CLAIM, counterexample=DATA
)
@metric_flow.register_misprint(
    "C15", claim=PRINTED_CLAIM, correction=CORRECTED_CLAIM, counterexample=DATA
)
def _(_: Case) -> Counterexample:
    misprint, correction = (_second_moment(mu_share=share) for share in (1, 0))
    return Counterexample((misprint,), (correction,))
