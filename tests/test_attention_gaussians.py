"""Closed forms of attention on Gaussians, and misprinted ones."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import (
    VARIANTS_EXACT_AT_NODES,
    biased_score,
    every_gaussian_variant,
    every_variant_exact_at_nodes,
    velocities,
)
from helpers import assert_close, case, gaussian, parameters, small_scores
from reference import Parameters, gaussian_linear, velocity

from meanfield.attention import Attention, Linear, Sinkhorn, Softmax, attentions
from meanfield.dynamics import Heads, Layers, stack_trees
from meanfield.fields import Affine
from meanfield.measures import Gaussian
from meanfield.measures.sampling import gauss_hermite
from meanfield.tokens import Tokens

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
    """Points within two standard deviations, in the support."""
    z = rng.normal(size=(m, mu.factor.shape[1]))
    z *= 2 * rng.uniform(size=(m, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
    return Tokens(mu.mean[None, :] + jnp.asarray(z) @ mu.factor.T)


def test_gauss_hermite_cases_have_small_scores(rng: np.random.Generator):
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
    """The attention with potentials solved to rounding."""
    return eqx.tree_at(lambda a: a.coupling, attention, Sinkhorn(tolerance=1e-13))


@pytest.mark.slow_cases("wide factor-sinkhorn", "d=3-sinkhorn")
@every_variant_exact_at_nodes
@pytest.mark.parametrize("kind", list(GAUSSIANS))
def test_closed_form_equals_the_barycentre_of_quadrature_nodes(
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


COUPLINGS_WITH_BIAS = {
    "softmax": Softmax(),
    "linear": Linear(),
    "sinkhorn": Sinkhorn(tolerance=1e-13),
    "three half-steps": Sinkhorn(iterations=3),
}


@pytest.mark.parametrize("kind", list(COUPLINGS_WITH_BIAS))
def test_closed_form_with_biases_and_offset(kind: str, rng: np.random.Generator):
    mu = gaussian(rng, 3, 2)
    score, p = biased_score(rng, small_scores(rng, 3, np.asarray(mu.factor)))
    attention = Attention(score, COUPLINGS_WITH_BIAS[kind], p.V, rng.normal(size=3))
    assert_closed_form(attention, mu, rng)


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_biases_are_in_the_scores(name: str, rng: np.random.Generator):
    c = case(rng)
    score, p = biased_score(rng, c.p)
    offset = rng.normal(size=3)
    attention = Attention(score, COUPLINGS_WITH_BIAS[name], p.V, offset)
    v = velocities(attention, c.points(), c.queries())
    assert_close(v, velocity(name, p, c.probes, c.x, c.w) + offset)


def test_expansion_with_biases_has_a_closed_form(rng: np.random.Generator):
    mu = gaussian(rng, 3, 2)
    score, p = biased_score(rng, small_scores(rng, 3, np.asarray(mu.factor)))
    plain = attentions["linear-expansion"](p.Q, p.K, p.V)
    assert_closed_form(Attention(score, plain.coupling, p.V), mu, rng)


@pytest.mark.parametrize(
    "name", [name for name in VARIANTS_EXACT_AT_NODES if name != "relu"]
)
def test_heads_and_layers_have_closed_forms(name: str, rng: np.random.Generator):
    mu = gaussian(rng, 2)
    members = []
    for _ in range(4):
        p = small_scores(rng, 2, np.asarray(mu.factor))
        attention = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon)
        members.append(tight(attention) if name == "sinkhorn" else attention)
    heads = [Heads(stack_trees(members[:2])), Heads(stack_trees(members[2:]))]
    layers = Layers(jnp.array([0.0, 1.0, 2.0]), stack_trees(heads))
    nodes, at = gauss_hermite(mu, order=16), probes_of(mu, rng)
    for t in (0.5, 1.5):
        gap = layers.field(t, mu)(at) - layers.field(t, nodes)(at)
        assert float(jnp.max(jnp.abs(gap))) <= 2e-12  # two heads


@every_gaussian_variant
def test_closed_form_matches_the_published_formula(name: str, rng: np.random.Generator):
    """In the form with inverses, which is less general than the library's."""
    mu, p = gaussian(rng, 3, mean=name != "relu"), parameters(rng, 3)
    Sigma, alpha = np.asarray(mu.covariance), np.asarray(mu.mean)
    field = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon).field(0.0, mu)
    assert isinstance(field, Affine)
    linear, offset = gaussian_linear(name, p, Sigma, alpha)
    ulps = 1e3 * np.linalg.cond(Sigma) * np.linalg.cond(p.K.T @ p.Q)
    assert_close(field.linear, linear, ulps=ulps)
    assert_close(field.offset, offset, ulps=ulps, scale=1.0)


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
    printed_value = np.array([[0.49489, 0.57530], [0.57530, 0.57709]])
    assert np.max(np.abs(rate - brute_force)) < 1e-5  # five digits are given
    assert np.max(np.abs(rate - printed_value)) > 0.3


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
