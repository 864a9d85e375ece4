"""Every registered variant: against NumPy, its symmetries, its closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    CASES,
    Case,
    assert_close,
    case,
    gaussian,
    orthogonal,
    parameters,
    small_scores,
)
from reference import Parameters, gaussian_linear, half_steps, velocity
from reference import dot as dot_score

from meanfield.attention import (
    Attention,
    Linear,
    Sinkhorn,
    Softmax,
    attentions,
    closed_on_gaussians,
    symmetries,
)
from meanfield.dynamics import Heads, Layers, causal, stacked
from meanfield.errors import (
    InvalidInputError,
    NotClosedError,
    UnknownNameError,
    UnsupportedError,
)
from meanfield.fields import Affine
from meanfield.measures import Blocked, Gaussian, Points
from meanfield.measures.sampling import gauss_hermite
from meanfield.scores import Dot, Masked
from meanfield.tokens import Tokens

every_variant = pytest.mark.parametrize("name", list(attentions))
every_closed = pytest.mark.parametrize("name", closed_on_gaussians())

# Sinkhorn stops at a marginal error of eps^(2/3): that, and not rounding, bounds it.
SOLVED = {"sinkhorn": 3.0 * np.finfo(np.float64).eps ** (-1 / 3)}


def ulps(name: str, at_least: float = 300) -> float:
    """What a comparison of `name` may differ by, in units of eps."""
    return max(at_least, SOLVED.get(name, 0))


def eager_velocities(attention: Attention, mu: Points, at: Tokens) -> jax.Array:
    return attention.field(0.0, mu)(at)


velocities = eqx.filter_jit(eager_velocities)


@every_variant
@pytest.mark.parametrize("kind", list(CASES))
def test_velocity_is_the_definition(name: str, kind: str, rng: np.random.Generator):
    c = CASES[kind](rng)
    v = velocities(c.attention(name), c.points(), c.queries())
    expected = velocity(name, c.p, c.probes, c.x, c.w)
    assert_close(v, expected, ulps=ulps(name), scale=1.0)


@every_variant
def test_velocity_in_single_precision(name: str, rng: np.random.Generator):
    c = case(rng, dtype=np.float32)
    v = velocities(c.attention(name), c.points(), c.queries())
    expected = velocity(name, c.p, c.probes, c.x, c.w)
    assert v.dtype == jnp.float32
    # A rounding of a score of size s is a relative error s of a weight; s < 10 here.
    allowed = (
        3 * float(np.finfo(np.float32).eps) ** (-1 / 3) if name == "sinkhorn" else 30
    )
    assert_close(v, expected.astype(np.float32), ulps=allowed, scale=1.0)


@every_variant
def test_tokens_are_exchangeable(name: str, rng: np.random.Generator):
    c = case(rng)
    order = rng.permutation(len(c.x))
    shuffled = Case(c.p, c.x[order], c.w[order], c.probes)
    attention = c.attention(name)
    v = velocities(attention, c.points(), c.queries())
    w = velocities(attention, shuffled.points(), c.queries())
    assert_close(w, v, ulps=ulps(name))


def turned(c: Case, R: np.ndarray) -> Case:
    p = Parameters(c.p.Q @ R.T, c.p.K @ R.T, R @ c.p.V @ R.T, c.p.epsilon)
    return Case(p, c.x @ R.T, c.w, c.probes @ R.T)


def shifted(c: Case, by: np.ndarray) -> Case:
    return Case(c.p, c.x + by, c.w, c.probes + by)


def symmetry_gap(name: str, symmetry: str, rng: np.random.Generator) -> float:
    """How far a barycentre is from commuting with `symmetry`; of order one if it is."""
    c = case(rng)
    identity = Parameters(c.p.Q, c.p.K, np.eye(3), c.p.epsilon)
    c = Case(identity, c.x, c.w, c.probes)
    v = velocities(c.attention(name), c.points(), c.queries())
    if symmetry == "permutation":
        order = rng.permutation(len(c.x))
        other, expected = Case(c.p, c.x[order], c.w[order], c.probes), v
    elif symmetry == "orthogonal":
        R = orthogonal(rng, 3)
        other, expected = turned(c, R), v @ R.T
    else:
        by = np.array([0.5, -1.0, 2.0])
        # The value carries 1/epsilon where the literature puts it there.
        weight = c.attention(name).value[0, 0]
        other, expected = shifted(c, by), v + weight * by[None, :]
    w = velocities(other.attention(name), other.points(), other.queries())
    return float(jnp.max(jnp.abs(w - expected)) / jnp.max(jnp.abs(v)))


@every_variant
@pytest.mark.parametrize("symmetry", ["permutation", "orthogonal", "translation"])
def test_symmetries_are_those_declared(
    name: str, symmetry: str, rng: np.random.Generator
):
    gap = symmetry_gap(name, symmetry, rng)
    if symmetry in symmetries[name]:
        assert gap < 2 * ulps(name) * np.finfo(np.float64).eps
    else:
        assert gap > 0.01


@every_variant
@pytest.mark.parametrize("garbage", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("reduction", [None, Blocked(3)])
def test_excluded_tokens_do_not_count(
    name: str,
    garbage: float,
    reduction: Blocked | None,
    rng: np.random.Generator,
):
    c = case(rng)
    attention = c.attention(name)
    mu = c.points() if reduction is None else c.points(reduction)
    x = jnp.concatenate([mu.tokens.x, jnp.full((2, c.d), garbage)])
    w = jnp.append(mu.log_weights, jnp.full(2, -jnp.inf))
    more = Points(Tokens(x, jnp.linspace(0, 1, len(w))), w, mu.reduction)
    v = velocities(attention, more, c.queries())
    assert_close(v, velocities(attention, mu, c.queries()), ulps=ulps(name))
    assert_close(more.mean, mu.mean)
    assert_close(more.covariance, mu.covariance)


@every_variant
def test_derivatives_do_not_see_excluded_tokens(name: str, rng: np.random.Generator):
    c = case(rng)
    attention, mu = c.attention(name), c.points()
    w = jnp.append(mu.log_weights, -jnp.inf)

    def total(x: jax.Array, probes: jax.Array) -> jax.Array:
        more = Points(Tokens(jnp.concatenate([x, jnp.full((1, c.d), jnp.nan)])), w)
        return jnp.sum(velocities(attention, more, Tokens(probes)) ** 2)

    def without(x: jax.Array, probes: jax.Array) -> jax.Array:
        fewer = Points(Tokens(x), mu.log_weights)
        return jnp.sum(velocities(attention, fewer, Tokens(probes)) ** 2)

    at = (mu.tokens.x, c.queries().x)
    slopes = (jax.jit(jax.grad(fn, argnums=(0, 1))) for fn in (total, without))
    got, expected = (slope(*at) for slope in slopes)
    for one, other in zip(got, expected, strict=True):
        assert_close(one, other, ulps=ulps(name, 1000))


@every_variant
@pytest.mark.parametrize("size", [1, 3, 7, 20])
def test_blocked_is_dense(name: str, size: int, rng: np.random.Generator):
    c = case(rng)
    attention = c.attention(name)
    dense, blocked = (
        velocities(attention, mu, c.queries())
        for mu in (c.points(), c.points(Blocked(size)))
    )
    assert_close(blocked, dense, ulps=ulps(name))


@pytest.mark.parametrize(
    "name",
    [
        # `test_derivatives_under_vmap_and_blocked` asks the same of its potentials.
        pytest.param(name, marks=pytest.mark.slow) if name == "sinkhorn" else name
        for name in attentions
    ],
)
def test_derivatives_of_blocked_are_those_of_dense(name: str, rng: np.random.Generator):
    c = case(rng)
    attention = c.attention(name)

    def total(mu: Points) -> jax.Array:
        return jnp.sum(velocities(attention, mu, c.queries()) ** 2)

    dense, blocked = (
        eqx.filter_jit(eqx.filter_grad(total))(mu)
        for mu in (c.points(), c.points(Blocked(3)))
    )
    assert_close(blocked.tokens.x, dense.tokens.x, ulps=ulps(name, 1000))
    assert_close(blocked.log_weights, dense.log_weights, ulps=ulps(name, 1000))


@every_variant
def test_jit_is_eager(name: str, rng: np.random.Generator):
    c = case(rng)
    attention, mu = c.attention(name), c.points()
    v = eager_velocities(attention, mu, c.queries())
    assert_close(velocities(attention, mu, c.queries()), v, ulps=ulps(name))


@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn"])
def test_scores_of_thousands_stay_finite_where_rows_are_normalised(
    name: str, rng: np.random.Generator
):
    c = case(rng, epsilon=1e-3)
    c = Case(Parameters(c.p.Q, c.p.Q, c.p.V, c.p.epsilon), c.x, c.w, c.probes)
    v = velocities(c.attention(name), c.points(), c.queries())
    assert jnp.all(jnp.isfinite(v))


# Closed forms on Gaussians


ORDERS = {1: 20, 2: 16, 3: 16, 4: 16}
GAUSSIANS = {  # d, rank of the factor, k
    "d=1": (1, 1, 1),
    "d=2": (2, 2, 2),
    "d=3": (3, 3, 3),
    "d=4": (4, 4, 4),
    "singular": (3, 2, 3),
    "k below d": (4, 2, 2),
    "wide factor": (2, 3, 2),
    "no spread": (2, 1, 2),
}


def probes_of(mu: Gaussian, rng: np.random.Generator, m: int = 6) -> Tokens:
    """Places within two standard deviations, on the support."""
    z = rng.normal(size=(m, mu.factor.shape[1]))
    z *= 2 * rng.uniform(size=(m, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
    return Tokens(mu.mean[None, :] + jnp.asarray(z) @ mu.factor.T)


def test_gauss_hermite_setting_is_the_promised_one(rng: np.random.Generator):
    for d, r, k in GAUSSIANS.values():
        mu = gaussian(rng, d, r)
        Y = np.asarray(mu.factor)
        p = small_scores(rng, d, Y, k=k)
        A, B = 2 * p.K.T @ p.Q / p.epsilon, 2 * p.K.T @ p.K / p.epsilon
        assert np.linalg.norm(Y.T @ A @ Y, 2) <= 0.25 + 1e-12
        assert np.linalg.norm(Y.T @ B @ Y, 2) <= 0.25 + 1e-12


def closed_case(
    name: str, kind: str, rng: np.random.Generator
) -> tuple[Gaussian, Parameters]:
    d, r, k = GAUSSIANS[kind]
    if name == "sinkhorn" and r == 4:
        r = 2  # a plan on 16^4 nodes would not fit
    mu = gaussian(rng, d, r, mean=name != "relu")
    if kind == "no spread":
        mu = Gaussian(mu.mean, 0 * mu.factor)
        return mu, parameters(rng, d, k)
    return mu, small_scores(rng, d, np.asarray(mu.factor), k=k)


def assert_closed_form(
    attention: Attention, mu: Gaussian, rng: np.random.Generator
) -> None:
    nodes = gauss_hermite(mu, order=ORDERS[mu.mean.shape[0]])
    at = probes_of(mu, rng)
    field = attention.field(0.0, mu)
    assert isinstance(field, Affine)
    v = velocities(attention, nodes, at)
    scale = float(jnp.max(jnp.abs(v)))
    assert float(jnp.max(jnp.abs(field(at) - v))) <= 1e-12 * max(scale, 1)


def tight(attention: Attention) -> Attention:
    """The same, with potentials solved to rounding."""
    return eqx.tree_at(lambda a: a.coupling, attention, Sinkhorn(tolerance=1e-13))


@every_closed
@pytest.mark.parametrize("kind", list(GAUSSIANS))
def test_closed_form_is_the_barycentre_of_nodes(
    name: str, kind: str, rng: np.random.Generator
):
    mu, p = closed_case(name, kind, rng)
    attention = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon)
    attention = tight(attention) if name == "sinkhorn" else attention
    assert_closed_form(attention, mu, rng)


@pytest.mark.parametrize("iterations", [1, 3, 5])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_closed_form_after_half_steps(
    iterations: int, d: int, rng: np.random.Generator
):
    mu = gaussian(rng, d, min(d, 2))
    p = small_scores(rng, d, np.asarray(mu.factor))
    attention = attentions["sinkhorn"](
        p.Q, p.K, p.V, epsilon=p.epsilon, iterations=iterations
    )
    assert_closed_form(attention, mu, rng)


def biased(rng: np.random.Generator, p: Parameters) -> tuple[Dot, Parameters]:
    q, k = 0.3 * rng.normal(size=(2, len(p.Q)))
    score = Dot(p.Q, p.K, p.epsilon, query_bias=jnp.asarray(q), key_bias=jnp.asarray(k))
    return score, Parameters(p.Q, p.K, p.V, p.epsilon, q, k)


COUPLINGS_WITH_BIAS = {
    "softmax": Softmax(),
    "linear": Linear(),
    "sinkhorn": Sinkhorn(tolerance=1e-13),
    "three half-steps": Sinkhorn(iterations=3),
}


@pytest.mark.parametrize("kind", list(COUPLINGS_WITH_BIAS))
def test_closed_form_with_biases_and_offset(kind: str, rng: np.random.Generator):
    mu = gaussian(rng, 3, 2)
    score, p = biased(rng, small_scores(rng, 3, np.asarray(mu.factor)))
    attention = Attention(score, COUPLINGS_WITH_BIAS[kind], p.V, rng.normal(size=3))
    assert_closed_form(attention, mu, rng)


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_biases_are_in_the_scores(name: str, rng: np.random.Generator):
    c = case(rng)
    score, p = biased(rng, c.p)
    offset = rng.normal(size=3)
    attention = Attention(score, COUPLINGS_WITH_BIAS[name], p.V, offset)
    v = velocities(attention, c.points(), c.queries())
    assert_close(v, velocity(name, p, c.probes, c.x, c.w) + offset)


def test_expansion_with_biases_has_a_closed_form(rng: np.random.Generator):
    mu = gaussian(rng, 3, 2)
    score, p = biased(rng, small_scores(rng, 3, np.asarray(mu.factor)))
    plain = attentions["linear-expansion"](p.Q, p.K, p.V)
    assert_closed_form(Attention(score, plain.coupling, p.V), mu, rng)


@pytest.mark.parametrize("name", [n for n in closed_on_gaussians() if n != "relu"])
def test_heads_and_layers_have_closed_forms(name: str, rng: np.random.Generator):
    mu = gaussian(rng, 2)
    members = []
    for _ in range(4):
        p = small_scores(rng, 2, np.asarray(mu.factor))
        one = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon)
        members.append(tight(one) if name == "sinkhorn" else one)
    heads = [Heads(stacked(members[:2])), Heads(stacked(members[2:]))]
    layers = Layers(jnp.array([0.0, 1.0, 2.0]), stacked(heads))
    nodes, at = gauss_hermite(mu, order=16), probes_of(mu, rng)
    for t in (0.5, 1.5):
        gap = layers.field(t, mu)(at) - layers.field(t, nodes)(at)
        assert float(jnp.max(jnp.abs(gap))) <= 2e-12  # two heads


@every_closed
def test_closed_form_is_the_published_one(name: str, rng: np.random.Generator):
    """In the form with inverses, which needs more than ours does."""
    mu, p = gaussian(rng, 3, mean=name != "relu"), parameters(rng, 3)
    Sigma, alpha = np.asarray(mu.covariance), np.asarray(mu.mean)
    field = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon).field(0.0, mu)
    assert isinstance(field, Affine)
    linear, offset = gaussian_linear(name, p, Sigma, alpha)
    amplified = 1e3 * np.linalg.cond(Sigma) * np.linalg.cond(p.K.T @ p.Q)
    assert_close(field.linear, linear, ulps=amplified)
    assert_close(field.offset, offset, ulps=amplified, scale=1.0)


# Printed formulas that are wrong (ERRATA)


def covariance_rate(attention: Attention, Sigma: np.ndarray) -> np.ndarray:
    d = len(Sigma)
    field = attention.field(0.0, Gaussian.from_moments(np.zeros(d), Sigma))
    assert isinstance(field, Affine)
    half = np.asarray(field.linear) @ Sigma
    return half + half.T


def test_l2_follows_the_corrected_equation_and_not_the_printed_one(
    rng: np.random.Generator,
):
    """castin2025, eq. (4.3): its second term must be the first's transpose (C10)."""
    p = parameters(rng, 2, epsilon=1.0)
    Sigma = np.array([[1.0, 0.3], [0.3, 0.5]])
    A, B = p.K.T @ p.Q, p.K.T @ p.K
    inverse = np.linalg.inv(np.eye(2) + 2 * Sigma @ B)
    first = 2 * p.V @ inverse @ Sigma @ A @ Sigma
    second = 2 * Sigma @ A.T @ inverse @ Sigma @ p.V.T
    not_symmetric = first + 2 * Sigma @ A.T @ Sigma @ inverse @ p.V.T
    rate = covariance_rate(attentions["l2"](p.Q, p.K, p.V), Sigma)
    assert_close(rate, first + second)
    assert np.max(np.abs(rate - not_symmetric)) > 0.01


def test_sinkhorn_follows_lemma_4_14_and_not_proposition_4_15():
    """The numbers of ERRATA C12, from a brute-force plan."""
    A = np.array([[0.6, -0.5], [0.2, 0.4]])
    Sigma = np.array([[1.0, 0.3], [0.3, 0.5]])
    rate = covariance_rate(attentions["sinkhorn"](A, np.eye(2), np.eye(2)), Sigma)
    brute_force = np.array([[0.84039, 0.23564], [0.23564, 0.20055]])
    printed = np.array([[0.49489, 0.57530], [0.57530, 0.57709]])
    assert np.max(np.abs(rate - brute_force)) < 1e-5  # five digits are given
    assert np.max(np.abs(rate - printed)) > 0.3


def test_relu_keeps_centred_gaussians(rng: np.random.Generator):
    r"""Against $\int y \max(Ax\cdot y, 0) dN(y)$ by quadrature, d = 1 (C3)."""
    s, a, v = 0.7, -1.3, 0.9
    nodes = np.linspace(0, 12 * np.sqrt(s), 200_001)
    density = np.exp(-(nodes**2) / (2 * s)) / np.sqrt(2 * np.pi * s)
    half_moment = np.trapezoid(nodes**2 * density, nodes)  # of y^2 over y > 0
    attention = attentions["relu"]([[a]], [[1.0]], [[v]])
    field = attention.field(0.0, Gaussian(jnp.zeros(1), jnp.array([[np.sqrt(s)]])))
    at = Tokens(jnp.array([[-2.0], [0.0], [1.5]]))
    # The trapezoidal rule is off by h^2 / 12 times the slope at 0, which is 0 here.
    assert np.max(np.abs(field(at) - v * a * at.x * half_moment)) < 1e-9


# Refusals


@pytest.mark.parametrize(
    "name", [n for n in attentions if n not in closed_on_gaussians()]
)
def test_variants_without_closed_form_name_those_with_one(name: str):
    one = np.eye(2)
    with pytest.raises(NotClosedError) as refusal:
        attentions[name](one, one, one).field(0.0, Gaussian(jnp.zeros(2), jnp.eye(2)))
    for other in closed_on_gaussians():
        assert other in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_variants_without_closed_form_are_two():
    assert set(attentions) - set(closed_on_gaussians()) == {"exp", "sigmoid"}


def test_relu_refuses_a_mean():
    one = np.eye(2)
    mu = Gaussian(jnp.array([0.0, 1e-9]), jnp.eye(2))
    with pytest.raises(NotClosedError, match="mean"):
        attentions["relu"](one, one, one).field(0.0, mu)


def test_relu_of_a_traced_mean_is_not_a_number():
    one = np.eye(2)
    relu = attentions["relu"](one, one, one)
    at = Tokens(jnp.zeros((1, 2)))  # where an affine field shows its offset
    offset = lambda alpha: relu.field(0.0, Gaussian(alpha, jnp.eye(2)))(at)
    assert jnp.all(jnp.isnan(jax.jit(offset)(jnp.ones(2))))
    assert_close(jax.jit(offset)(jnp.zeros(2)), jnp.zeros((1, 2)))


@pytest.mark.parametrize("iterations", [2, 4])
def test_even_half_steps_refuse_gaussians(iterations: int):
    one = np.eye(2)
    attention = attentions["sinkhorn"](one, one, one, iterations=iterations)
    with pytest.raises(NotClosedError, match="odd"):
        attention.field(0.0, Gaussian(jnp.zeros(2), jnp.eye(2)))


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 5])
def test_half_steps_are_the_alternation(iterations: int, rng: np.random.Generator):
    c = case(rng)
    attention = c.attention("sinkhorn", iterations=iterations)
    v = velocities(attention, c.points(), c.queries())
    kappa = half_steps(c.p, c.probes, c.x, c.w, iterations=iterations)
    assert_close(v, (kappa * c.w) @ c.x @ c.p.V.T)


def test_one_half_step_is_softmax(rng: np.random.Generator):
    c = case(rng, epsilon=1.0)
    one, soft = c.attention("sinkhorn", iterations=1), c.attention("softmax")
    assert_close(
        velocities(one, c.points(), c.queries()),
        velocities(soft, c.points(), c.queries()),
    )


def test_sinkhorn_refuses_masked_scores(rng: np.random.Generator):
    c = case(rng)
    score = Masked(Dot(c.p.Q, c.p.K), causal)
    with pytest.raises(UnsupportedError, match="Prefix"):
        Attention(score, Sinkhorn(), c.p.V).field(0.0, c.points())


def test_masked_scores_have_no_gaussian(rng: np.random.Generator):
    c = case(rng)
    attention = Attention(Masked(Dot(c.p.Q, c.p.K), causal), Softmax(), c.p.V)
    with pytest.raises(NotClosedError, match="Masked"):
        attention.field(0.0, gaussian(rng, 3))


def test_unknown_names_are_met_with_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean `softmax`"):
        attentions["sofmax"]


@every_variant
@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan])
def test_epsilon_must_be_positive(name: str, epsilon: float):
    one = np.eye(2)
    with pytest.raises(InvalidInputError, match=r"`epsilon` must be positive") as error:
        attentions[name](one, one, one, epsilon=epsilon)
    assert f"{epsilon}" in str(error.value)
    assert "\n" not in str(error.value)


@every_variant
@pytest.mark.parametrize(
    ("Q", "K", "V"),
    [
        (np.eye(2), np.eye(3), np.eye(2)),
        (np.ones(2), np.ones(2), np.eye(2)),
        (np.eye(2), np.eye(2), np.ones((2, 3))),
        (np.eye(2), np.eye(2), np.eye(3)),
        (np.full((2, 2), np.nan), np.eye(2), np.eye(2)),
        (np.eye(2), np.eye(2), [["a", "b"], ["c", "d"]]),
    ],
)
def test_matrices_that_do_not_fit_are_refused(
    name: str, Q: np.ndarray, K: np.ndarray, V: np.ndarray
):
    with pytest.raises(InvalidInputError) as error:
        attentions[name](Q, K, V)
    assert "\n" not in str(error.value)


@every_variant
def test_dimensions_must_agree(name: str):
    one = np.eye(2)
    attention = attentions[name](one, one, one)
    with pytest.raises(InvalidInputError, match="dimension 3"):
        attention.field(0.0, Points.uniform(np.ones((4, 3))))


def test_double_precision_input_needs_it_switched_on():
    code = (
        "import numpy as np\n"
        "from meanfield.attention import attentions\n"
        "from meanfield.errors import PrecisionError\n"
        "try:\n"
        "    attentions['softmax'](np.eye(2), np.eye(2), np.eye(2))\n"
        "except PrecisionError as error:\n"
        "    assert 'jax_enable_x64' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('rounded in silence')\n"
    )
    run_python(code)


def run_python(code: str) -> None:
    import os
    import subprocess
    import sys

    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_score_of_one_pair_is_the_definition(rng: np.random.Generator):
    c = case(rng, n=1)
    _, p = biased(rng, c.p)
    score = Dot(
        p.Q, p.K, p.epsilon, query_bias=jnp.asarray(p.q), key_bias=jnp.asarray(p.k)
    )
    got = score(Tokens(jnp.asarray(c.probes[:1])), Tokens(jnp.asarray(c.x)))
    assert_close(got, [[dot_score(p, c.probes[0], c.x[0])]])
