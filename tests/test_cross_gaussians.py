"""Cross attention of Gaussians and grids, and moving contexts, by quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import CONTINUOUS, SORTING_VARIANTS, every_variant_exact_at_nodes
from helpers import assert_close, gaussian, parameters
from reference import (
    Matrix,
    Parameters,
    Sides,
    Vector,
    half_steps_across,
    velocity_across,
)
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import ndtri

from meanfield.attention import attentions
from meanfield.dynamics import Cross, Heads, MovingContext, Projected, stack_trees
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.fields import Affine
from meanfield.flows import flow
from meanfield.measures import Gaussian, Grid, Points, Tensor
from meanfield.measures.sampling import gauss_hermite
from meanfield.tokens import Tokens

ORDER = 16
INNER_TIMES = np.linspace(0.01, 1.99, 23)


def nodes(mu: Gaussian, order: int = ORDER) -> tuple[Matrix, Vector]:
    """Gauss–Hermite nodes along the columns of the factor, and their weights."""
    r = mu.factor.shape[1]
    z, w = np.polynomial.hermite_e.hermegauss(order)
    axes = np.meshgrid(*[z] * r, indexing="ij")
    mass = np.prod(np.meshgrid(*[w] * r, indexing="ij"), axis=0).ravel()
    grid = np.stack([axis.ravel() for axis in axes], axis=1)
    return np.asarray(mu.mean) + grid @ np.asarray(mu.factor).T, mass / mass.sum()


def pair(rng: np.random.Generator, d: int = 2) -> tuple[Gaussian, Gaussian]:
    """Queries of full rank, keys on a line: factors of different widths."""
    return gaussian(rng, d), gaussian(rng, d, 1)


def gentle(rng: np.random.Generator, d: int = 2, k: int = 2) -> Parameters:
    """Scores small enough for the nodes to integrate their exponentials."""
    p = parameters(rng, d, k)
    return Parameters(0.2 * p.Q, 0.2 * p.K, p.V, p.epsilon)


def affine(cross: Cross, mu: Gaussian) -> Affine:
    field = cross.field(0.0, mu)
    assert isinstance(field, Affine)
    return field


@every_variant_exact_at_nodes
@pytest.mark.parametrize("is_turned", [False, True])
def test_closed_forms_are_sums_over_nodes(
    name: str, is_turned: bool, rng: np.random.Generator
):
    """For Sinkhorn, alternation in the log domain on the nodes of both."""
    p, (mu, nu) = gentle(rng), pair(rng)
    mu, nu = (nu, mu) if is_turned else (mu, nu)
    if name == "relu":  # closed for keys about the origin; queries may be anywhere
        nu = Gaussian(jnp.zeros(2), nu.factor)
    sides = Sides(*nodes(mu), *nodes(nu))
    z = rng.normal(size=(4, mu.factor.shape[1]))
    at = np.asarray(mu.mean) + z @ np.asarray(mu.factor).T
    field = affine(Cross(attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon), nu), mu)
    expected = velocity_across(name, p, at, sides)
    assert_close(field(Tokens(jnp.asarray(at))), expected, ulps=10_000, scale=1.0)


@pytest.mark.parametrize("iterations", [1, 3])
def test_closed_half_steps_match_nodes(iterations: int, rng: np.random.Generator):
    p, (mu, nu) = gentle(rng), pair(rng)
    sides = Sides(*nodes(mu), *nodes(nu))
    law = attentions["sinkhorn"](
        p.Q, p.K, p.V, epsilon=p.epsilon, iterations=iterations
    )
    kappa = half_steps_across(p, sides.x, sides, iterations=iterations)
    expected = (kappa * sides.w) @ sides.y @ p.V.T
    at = Tokens(jnp.asarray(sides.x))
    assert_close(affine(Cross(law, nu), mu)(at), expected, ulps=10_000, scale=1.0)


def test_hard_plans_of_gaussians_have_their_marginals(rng: np.random.Generator):
    r"""Small bandwidths, beyond quadrature: $E[y]$ and the optimal map as a limit.

    As $\epsilon \to 0$ the plan for $Q = K = I$ is the monotone map, $L =
    \Sigma_X^{-1/2}(\Sigma_X^{1/2}\Sigma_Y\Sigma_X^{1/2})^{1/2}\Sigma_X^{-1/2}$.
    """
    mu, nu, eye = gaussian(rng, 3), gaussian(rng, 3), np.eye(3)
    law = attentions["sinkhorn"](eye, eye, 1e-7 * eye, epsilon=1e-7)
    L = np.asarray(affine(Cross(law, nu), mu).linear)
    S, T = np.asarray(mu.covariance), np.asarray(nu.covariance)
    np.testing.assert_allclose(L @ S @ L.T, T, atol=1e-5)  # no spread is left
    np.testing.assert_allclose(L, L.T, atol=1e-5)  # and it is a gradient


@pytest.mark.slow
def test_sliced_closed_form_is_the_limit_of_many_tokens(rng: np.random.Generator):
    """Cov(v, x) of tokens with exactly these moments; 30 000 on 20 000."""
    p, (mu, nu) = parameters(rng, 2), (gaussian(rng, 2), gaussian(rng, 2))
    draws = [rng.normal(size=(n, 2)) for n in (30_000, 20_000)]
    white = [z - z.mean(0) for z in draws]
    white = [
        z @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, ddof=0))).T for z in white
    ]
    x, y = (
        np.asarray(law.mean) + z @ np.asarray(law.factor).T
        for law, z in zip((mu, nu), white, strict=True)
    )
    law = attentions["esp"](p.Q, p.K, p.V, epsilon=p.epsilon, tau=0.4, slices=3)
    queries = Points.uniform(x)
    v = np.asarray(Cross(law, Points.uniform(y)).field(0.0, queries)(queries.tokens))
    field = affine(Cross(law, nu), mu)
    slope = v.T @ (x - x.mean(0)) / len(x)
    expected = np.asarray(field.linear @ mu.covariance)
    np.testing.assert_allclose(slope, expected, atol=0.02 * np.abs(expected).max())
    mean = field.linear @ mu.mean + field.offset
    np.testing.assert_allclose(v.mean(0), mean, atol=1e-8)


@pytest.mark.slow
def test_soft_sorts_of_two_gaussians_are_the_limit_of_quantiles():
    """Each velocity on a line, with fewer queries than keys."""
    sides = [(0.4, 1.2, 1000), (-1.0, 0.5, 1500)]
    x, y = (a + s * ndtri((np.arange(n) + 0.5) / n)[:, None] for a, s, n in sides)
    mu, nu = (Gaussian.from_moments([a], [[s**2]]) for a, s, _ in sides)
    law = attentions["esp-soft"]([[1.0]], [[-0.7]], [[1.3]], temperature=0.5)
    queries = Points.uniform(x)
    field = Cross(law, Points.uniform(y)).field(0.0, queries)
    near = np.abs(x - 0.4)[:, 0] < 2 * 1.2  # where quantiles are dense
    closed = affine(Cross(law, nu), mu)(queries.tokens)
    gaps = np.abs(np.asarray(field(queries.tokens) - closed))[near]
    assert np.max(gaps) < 1e-3  # 1.1e-4 in fact


LINE_VARIANTS = [n for n in CONTINUOUS if n not in ("sinkhorn", *SORTING_VARIANTS)]


@pytest.mark.parametrize("name", LINE_VARIANTS)
def test_tokens_attend_to_a_gaussian_context_exactly(
    name: str, rng: np.random.Generator
):
    """Its law is summed finely on a line, with a nonzero mean."""
    p, nu = gentle(rng, 1, 1), gaussian(rng, 1)
    sigma, t = abs(float(nu.factor[0, 0])), np.linspace(-9, 9, 2401)
    weight = np.exp(-(t**2) / 2)
    y = float(nu.mean[0]) + sigma * t[:, None]
    mu = Points.uniform(rng.normal(size=(3, 1)))
    x = np.asarray(mu.tokens.x)
    u = np.full(3, 1 / 3)
    law = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon)
    v = Cross(law, nu).field(0.0, mu)(mu.tokens)
    expected = velocity_across(name, p, x, Sides(x, u, y, weight / weight.sum()))
    kink = 1e-5 if name == "relu" else 1e-12  # the square of a step, at a corner
    np.testing.assert_allclose(v, expected, rtol=0, atol=kink)


@pytest.mark.parametrize("name", ["sinkhorn", *SORTING_VARIANTS])
def test_plans_between_tokens_and_a_gaussian_are_rejected(name: str):
    eye, nu = np.eye(2), Gaussian.from_moments(np.zeros(2), np.eye(2))
    with pytest.raises(UnsupportedError, match="Give the context as tokens"):
        Cross(attentions[name](eye, eye, eye), nu).field(0.0, Points.uniform(eye))


def test_a_gaussian_attending_to_tokens_is_projected(rng: np.random.Generator):
    p, mu = gentle(rng), gaussian(rng, 2)
    y = rng.normal(size=(5, 2))
    law = attentions["softmax"](p.Q, p.K, p.V, epsilon=p.epsilon)
    cross = Cross(law, Points.uniform(y))
    with pytest.raises(NotClosedError, match="attends to tokens"):
        cross.field(0.0, mu)
    x, u = nodes(mu, 20)
    v = velocity_across("softmax", p, x, Sides(x, u, y, np.full(5, 0.2)))
    z = (x - np.asarray(mu.mean)) @ np.linalg.inv(np.asarray(mu.factor)).T
    mean, factor = mu.transport(Projected(cross, Tensor(20)).field(0.0, mu))
    assert_close(mean, u @ v, ulps=1000)
    assert_close(factor, (u[:, None] * v).T @ z, ulps=1000)


def test_even_half_steps_between_gaussians_use_nodes_of_both(rng: np.random.Generator):
    p, mu, nu = gentle(rng), gaussian(rng, 2), gaussian(rng, 2, 1)
    law = attentions["sinkhorn"](p.Q, p.K, p.V, epsilon=p.epsilon, iterations=2)
    mean, _ = mu.transport(Projected(Cross(law, nu), Tensor(10)).field(0.0, mu))
    sides = Sides(*nodes(mu, 10), *nodes(nu, 10))
    kappa = half_steps_across(p, sides.x, sides, iterations=2)
    expected = sides.u @ ((kappa * sides.w) @ sides.y @ p.V.T)
    assert_close(mean, expected, ulps=10_000, scale=1.0)


@pytest.mark.slow_cases("esp")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn", "esp"])
def test_a_density_attends_to_tokens_like_its_cells(
    name: str, rng: np.random.Generator
):
    p, y = parameters(rng, 1, 1), rng.normal(size=(6, 1))
    edges = [np.linspace(-4, 4, 25)]
    middles = np.linspace(-4, 4, 25)[1:] - 1 / 6
    mu = Grid.from_density(edges, np.exp(-(middles**2) / 2))
    cells = mu.points()
    x, u = np.asarray(cells.tokens.x), np.asarray(cells.weights)
    law = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon)
    v = Cross(law, Points.uniform(y)).field(0.0, mu)(cells.tokens)
    sides = Sides(x, u / u.sum(), y, np.full(6, 1 / 6))
    expected = velocity_across(name, p, x, sides)
    tolerance = 1e-8 if name == "sinkhorn" else 1e-12
    np.testing.assert_allclose(v, expected, atol=tolerance)


def test_heads_of_gaussians_add_up(rng: np.random.Generator):
    (mu, nu), ps = pair(rng), [gentle(rng), gentle(rng)]
    heads = [attentions["sinkhorn"](p.Q, p.K, p.V, epsilon=p.epsilon) for p in ps]
    field = affine(Cross(Heads(stack_trees(heads)), nu), mu)
    parts = [affine(Cross(head, nu), mu) for head in heads]
    assert_close(field.linear, sum(part.linear for part in parts))
    tokens = gauss_hermite(mu, order=2)
    side = Cross(Heads(stack_trees(heads[:1])), nu)
    with pytest.raises(UnsupportedError):
        side.field(0.0, tokens)
    soft = [attentions["softmax"](p.Q, p.K, p.V) for p in ps]
    v = Cross(Heads(stack_trees(soft)), nu).field(0.0, tokens)(tokens.tokens)
    velocities_of_heads = [
        Cross(head, nu).field(0.0, tokens)(tokens.tokens) for head in soft
    ]
    assert_close(v, velocities_of_heads[0] + velocities_of_heads[1])


def test_a_gaussian_with_a_gaussian_context_moves_linearly(rng: np.random.Generator):
    r"""$x' = Gx + V\alpha_Y$ with $G = V\Sigma_YA$ for softmax: by exponentials."""
    p, mu, nu = parameters(rng, 2), gaussian(rng, 2), gaussian(rng, 2)
    law = attentions["softmax"](p.Q, p.K, p.V, epsilon=p.epsilon)
    end = flow(Cross(law, nu), mu, [0.0, 0.8]).final
    G = p.V @ np.asarray(nu.covariance) @ p.K.T @ p.Q / p.epsilon
    whole = np.zeros((3, 3))
    whole[:2, :2], whole[:2, 2] = G, p.V @ np.asarray(nu.mean)
    flow_matrix = expm(0.8 * whole)
    np.testing.assert_allclose(
        end.mean,
        flow_matrix[:2, :2] @ np.asarray(mu.mean) + flow_matrix[:2, 2],
        rtol=1e-5,
    )
    Sigma = flow_matrix[:2, :2] @ np.asarray(mu.covariance) @ flow_matrix[:2, :2].T
    np.testing.assert_allclose(end.covariance, Sigma, rtol=1e-5)


def test_a_moving_context_interpolates_its_frames(rng: np.random.Generator):
    """With a fourth-order error in between; a Gaussian by its factor."""
    nu = gaussian(rng, 2)

    def frame(t: float) -> Gaussian:
        return Gaussian(jnp.cos(t) * nu.mean, jnp.exp(-t) * nu.factor)

    errors = []
    for count in (9, 17):
        ts = np.linspace(0, 2, count)
        context = MovingContext.from_frames(ts, [frame(t) for t in ts])
        for t in ts:
            assert_close(context.measure_at(t).coordinates[1], frame(t).factor)
        deviations = [
            context.measure_at(t).coordinates[0] - frame(t).mean for t in INNER_TIMES
        ]
        errors.append(float(jnp.max(jnp.abs(jnp.stack(deviations)))))
        assert_close(context.measure_at(5.0).coordinates[0], frame(2.0).mean)
    assert errors[1] < errors[0] / 8


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_queries_with_a_moving_context_follow_the_equation(
    name: str, rng: np.random.Generator
):
    """Rotating keys, known exactly, against SciPy with the definition in NumPy."""
    p, x, y = gentle(rng), rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    keys = lambda t: y @ expm(t * turn).T
    ts = np.linspace(0, 1, 41)
    context = MovingContext.from_frames(ts, [Points.uniform(keys(t)) for t in ts])
    law = attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon)
    end = flow(Cross(law, context), Points.uniform(x), [0.0, 1.0]).final

    def rate(t: float, flat: Vector) -> Vector:
        at = flat.reshape(3, 2)
        sides = Sides(at, np.full(3, 1 / 3), keys(t), np.full(4, 1 / 4))
        return velocity_across(name, p, at, sides).ravel()

    actual = solve_ivp(rate, (0, 1), x.ravel(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        np.asarray(end.tokens.x).ravel(), actual.y[:, -1], atol=3e-6
    )


def test_invalid_context_frames_are_rejected():
    mu = Points.uniform(np.eye(2))
    with pytest.raises(InvalidInputError, match="at least two frames"):
        MovingContext.from_frames([0.0], [mu])
    with pytest.raises(InvalidInputError, match="strictly increasing"):
        MovingContext.from_frames([0.0, 0.0], [mu, mu])
    edges = [np.linspace(-4, 4, 25)]
    grid = Grid.from_density(edges, np.ones(24))
    with pytest.raises(UnsupportedError, match="cannot be interpolated"):
        MovingContext.from_frames([0.0, 1.0], [grid, grid])
