"""The Gaussian closure: exact where it must be, and its departure from the tokens."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from closure_reference import (
    Rates,
    Right,
    exp_rates,
    integrate,
    nodal_rates,
    normal,
    relu_rates,
)
from helpers import assert_close, gaussian, parameters, small_scores
from jaxtyping import Array
from reference import Parameters, half_steps
from scipy.special import expit
from typing_extensions import override

from meanfield._typing import Time
from meanfield.attention import Attention, Pointwise, attentions, gaussian_variants
from meanfield.dynamics import (
    AbstractDynamics,
    Heads,
    Layers,
    Prefix,
    Projected,
    Sum,
    causal,
    stack_trees,
)
from meanfield.endings import Status
from meanfield.energies import GradientFlow, energies
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.fields import AbstractField
from meanfield.flows import adaptive, flow
from meanfield.measures import (
    AbstractMeasure,
    Gaussian,
    Points,
    Quadrature,
    RotatedSigmaPoints,
    Tensor,
)
from meanfield.scores import Dot, Masked
from meanfield.theorems.reference.energies import standard_nodes


class ByNodes(AbstractDynamics):
    """A dynamics without closed forms, which is evaluated on nodes."""

    dynamics: AbstractDynamics

    @property
    @override
    def jumps(self) -> Array:
        return self.dynamics.jumps

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        assert isinstance(mu, Quadrature)
        return self.dynamics.field(t, mu.points)


@eqx.filter_jit
def rates(dynamics: AbstractDynamics, mu: Gaussian, t: float = 0.0) -> tuple:
    return mu.transport(dynamics.field(t, mu))


def make_attention(name: str, p: Parameters, **options: object) -> Attention:
    return attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon, **options)


def moments(mu: Gaussian) -> Rates:
    """Mean and factor of a Gaussian, as NumPy."""
    return np.asarray(mu.mean), np.asarray(mu.factor)


def relative_gap(actual: tuple, expected: tuple) -> float:
    pairs = zip(actual, expected, strict=True)
    gaps = [np.linalg.norm(np.asarray(a) - np.asarray(b)) for a, b in pairs]
    sizes = [np.linalg.norm(part) for part in expected]
    return float(np.linalg.norm(gaps) / np.linalg.norm(sizes))


# Exact where the flow is closed


@pytest.mark.parametrize("name", gaussian_variants())
def test_closed_flows_are_unchanged_by_projection(
    name: str, rng: np.random.Generator
) -> None:
    """Also for lower rank; three nodes are exact for an affine field."""
    dynamics = make_attention(name, parameters(rng, 3, epsilon=2.0))
    mu = gaussian(rng, 3, 2, mean=name != "relu")
    expected = rates(dynamics, mu)
    for rate in zip(rates(Projected(dynamics, Tensor(3)), mu), expected, strict=True):
        assert_close(*rate, ulps=1000, scale=1.0)


@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_quadrature_nodes_recover_closed_flows(
    name: str, rng: np.random.Generator
) -> None:
    """As for a dynamics without closed form; Sinkhorn stops at 4e-11."""
    mu = gaussian(rng, 2)
    dynamics = make_attention(name, small_scores(rng, 2, np.asarray(mu.factor)))
    actual = rates(Projected(ByNodes(dynamics), Tensor(14)), mu)
    assert relative_gap(actual, rates(dynamics, mu)) < 1e-9


def test_even_half_steps_use_quadrature_nodes(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor))
    z, w = standard_nodes(2, 8)
    x = np.asarray(mu.mean) + z @ np.asarray(mu.factor).T
    velocity = (half_steps(p, x, x, w, iterations=2) * w) @ x @ p.V.T
    expected = w @ velocity, (velocity * w[:, None]).T @ z
    actual = rates(
        Projected(make_attention("sinkhorn", p, iterations=2), Tensor(8)), mu
    )
    assert relative_gap(actual, expected) < 1e-12


# Against SciPy, where it is not


CASES = {  # dimension and rank, nodes along an axis of the library and the reference
    "d = 1": (1, 1, 24, 40),
    "d = 2": (2, 2, 16, 20),
    "d = 3": (3, 3, 9, 10),
    "d = 3, rank 1": (3, 1, 24, 40),
}


@dataclass(frozen=True)
class Setting:
    """One attention and one Gaussian, with the expected rates."""

    dynamics: Projected
    mu: Gaussian
    right: Right


def setting(name: str, case: str, rng: np.random.Generator) -> Setting:
    d, r, order, finer = CASES[case]
    mu = gaussian(rng, d, r)
    p = small_scores(rng, d, np.asarray(mu.factor))
    A = p.K.T @ p.Q / p.epsilon
    by_nodes, closed = nodal_rates(finer, expit, A, p.V), partial(exp_rates, A, p.V)
    right = by_nodes if name == "sigmoid" else closed
    return Setting(Projected(make_attention(name, p), Tensor(order)), mu, right)


@pytest.mark.parametrize("name", ["sigmoid", "exp"])
@pytest.mark.parametrize("case", CASES)
def test_rates_match_numpy(name: str, case: str, rng: np.random.Generator) -> None:
    problem = setting(name, case, rng)
    expected = problem.right(*moments(problem.mu))
    assert relative_gap(rates(problem.dynamics, problem.mu), expected) < 1e-7


@pytest.mark.slow_cases("exp-d = 3, rank 1-0.2")
@pytest.mark.parametrize(
    ("name", "case", "t"), [("sigmoid", "d = 2", 0.4), ("exp", "d = 3, rank 1", 0.2)]
)
def test_flows_follow_dop853(
    name: str, case: str, t: float, rng: np.random.Generator
) -> None:
    problem, ts = setting(name, case, rng), jnp.array([0.0, t])
    end = flow(problem.dynamics, problem.mu, ts, stepping=adaptive(rtol=1e-9))
    assert end.status == int(Status.FINISHED)
    assert end.residual < 1e-6  # quadrature error reported by the flow
    expected = integrate(problem.right, moments(problem.mu), t)
    assert relative_gap(end.final.coordinates, expected) < 1e-7


def test_relu_with_a_mean_reports_its_error() -> None:
    """Nodes resolve the kink of the score to two or three digits."""
    mu = Gaussian(jnp.array([0.7]), jnp.array([[0.8]]))
    expected = relu_rates(-0.9, 1.2, np.array([0.7]), np.array([[0.8]]))
    relu = attentions["relu"](-0.9 * np.eye(1), np.eye(1), 1.2 * np.eye(1))
    field = Projected(relu).field(0.0, mu)
    assert field.convergence is not None
    assert relative_gap(mu.transport(field), expected) < field.convergence.residual
    assert field.convergence.residual < 5e-3


@pytest.mark.slow_cases("2-0.02", "3-0.02")
@pytest.mark.parametrize(("d", "bound"), [(2, 0.02), (3, 0.02), (8, 0.05)])
def test_rotated_sigma_points_are_near_tensor_nodes(
    d: int, bound: float, rng: np.random.Generator
) -> None:
    mu, p = gaussian(rng, d), parameters(rng, d)
    closed = exp_rates if d > 3 else None
    if closed:
        p = small_scores(rng, d, np.asarray(mu.factor))
    dynamics = make_attention("exp" if closed else "sigmoid", p)
    A = p.K.T @ p.Q / p.epsilon
    alpha, Y = np.asarray(mu.mean), np.asarray(mu.factor)
    expected = (
        closed(A, p.V, alpha, Y) if closed else nodal_rates(12, expit, A, p.V)(alpha, Y)
    )
    field = Projected(dynamics, RotatedSigmaPoints()).field(0.0, mu)
    assert relative_gap(mu.transport(field), expected) < bound
    assert field.convergence is not None
    assert field.convergence.residual < bound


# Composite dynamics


def test_heads_sums_and_layers_are_projected(rng: np.random.Generator) -> None:
    mu, rule = gaussian(rng, 2), Tensor(8)
    heads = [make_attention("sigmoid", parameters(rng, 2)) for _ in range(2)]
    soft = make_attention("softmax", parameters(rng, 2))
    drift = GradientFlow(energies["second-moment"](*[jnp.eye(2)] * 3))
    rates_of = lambda dynamics: rates(Projected(dynamics, rule), mu)
    total = [
        sum(parts) for parts in zip(*map(rates_of, heads), rates(soft, mu), strict=True)
    ]
    total = [a + b for a, b in zip(total, rates(drift, mu), strict=True)]
    projected_sum = Projected(Sum(Heads(stack_trees(heads)), soft, drift), rule)
    for a, b in zip(rates(projected_sum, mu), total, strict=True):
        assert_close(a, b)
    layers = Projected(Layers([0.0, 1.0, 2.0], stack_trees(heads)), rule)
    assert_close(layers.jumps, np.array([1.0]))
    for a, b in zip(rates(layers, mu, 1.5), rates_of(heads[1]), strict=True):
        assert_close(a, b)


def test_a_link_without_known_averages_uses_nodes(rng: np.random.Generator) -> None:
    mu = gaussian(rng, 2)
    p = small_scores(rng, 2, np.asarray(mu.factor))
    tanh = Attention(Dot(p.Q, p.K, p.epsilon), Pointwise(jnp.tanh), p.V)
    actual = rates(Projected(tanh, Tensor(9)), mu)
    expected = nodal_rates(9, np.tanh, p.K.T @ p.Q / p.epsilon, p.V)(*moments(mu))
    assert relative_gap(actual, expected) < 1e-12


# Departure from the flow


@pytest.fixture(scope="module")
def parting() -> np.ndarray:
    """Differences between the closure of sigmoid attention and the true flow.

    Mean and variance of N(0.5, 1), at six times. The truth: tokens on a line, weighted
    by the normal density, integrate against the moving density like the trapezoidal
    rule; more tokens change nothing that is visible here.
    """
    identity, z = np.eye(1), np.linspace(-9, 9, 300)
    sigmoid = attentions["sigmoid"](identity, identity, identity)
    tokens = Points.weighted(0.5 + z[:, None], normal(z))
    closure = Gaussian(jnp.array([0.5]), jnp.eye(1))
    ts = jnp.array([0.0, 0.02, 0.04, 0.5, 1.0, 2.0])
    actual, true = flow(Projected(sigmoid), closure, ts), flow(sigmoid, tokens, ts)
    moments = lambda mu: (float(mu.mean[0]), float(mu.covariance[0, 0]))
    return np.array(
        [
            np.subtract(moments(actual.frame(i)), moments(true.frame(i)))
            for i in range(6)
        ]
    )


@pytest.mark.slow
def test_the_closure_error_grows_quadratically(parting: np.ndarray) -> None:
    assert_close(parting[0], np.zeros(2), scale=1.0)
    order = np.log2(parting[2] / parting[1])
    np.testing.assert_allclose(order, 2, atol=0.1)


@pytest.mark.slow
def test_the_closure_error_matches_the_measured_one(parting: np.ndarray) -> None:
    """20 000 antithetic tokens gave the same: -0.0037, -0.030 and -0.50 of the
    variance, to their noise; with 300 to 1200 tokens on a line these digits do not
    change."""
    variance = [-0.00440523, -0.0324807, -0.523788]
    np.testing.assert_allclose(parting[3:, 1], variance, rtol=1e-4)
    mean = [-0.000741508, -0.00496166, -0.0138793]
    np.testing.assert_allclose(parting[3:, 0], mean, rtol=1e-4)


@pytest.mark.slow
def test_exp_stops_where_its_averages_diverge() -> None:
    r"""$E e^{\lambda^2 z^2/2}$ is infinite from $\lambda = A\Sigma = 1$ on."""
    identity = np.eye(1)
    mu = Gaussian(jnp.zeros(1), jnp.eye(1))
    end = flow(
        Projected(attentions["exp"](0.3 * identity, identity, identity)), mu, [0.0, 2.0]
    )
    assert end.status == int(Status.UNCONVERGED)
    assert 0.9 < 0.3 * float(end.final.covariance[0, 0]) < 1


def test_masks_and_tokens_are_rejected(rng: np.random.Generator) -> None:
    p, mu = parameters(rng, 2), gaussian(rng, 2)
    sigmoid = make_attention("sigmoid", p)
    masked = Attention(Masked(sigmoid.score, causal), sigmoid.coupling, p.V)
    with pytest.raises(UnsupportedError, match="a Gaussian has none"):
        rates(Projected(Prefix(sigmoid)), mu)
    with pytest.raises(NotClosedError, match="mask compares positions"):
        rates(Projected(masked), mu)
    with pytest.raises(UnsupportedError, match="dynamics without `Projected`"):
        Projected(sigmoid).field(0.0, Points.uniform(np.ones((2, 2))))
    with pytest.raises(InvalidInputError, match="dimension 2"):
        rates(Projected(sigmoid), gaussian(rng, 3))
