"""Cross attention: queries and keys of two measures, against sums over pairs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import every_variant, ulps, unordered_variants, velocities
from helpers import Case, assert_close, case, parameters, tokens
from jaxtyping import Array
from reference import Parameters, Sides, half_steps_across, velocity_across
from typing_extensions import override

from meanfield.attention import (
    AbstractBarycentre,
    AbstractCoupling,
    Attention,
    Sinkhorn,
    attentions,
)
from meanfield.dynamics import (
    AbstractDynamics,
    Cross,
    Drift,
    Heads,
    Layers,
    Perceptron,
    Prefix,
    Projected,
    Sum,
    stack_trees,
)
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractField, Affine
from meanfield.flows import Status, flow
from meanfield.measures import Gaussian, Points
from meanfield.scores import AbstractScore, Dot, Masked, causal
from meanfield.tokens import Tokens

EDGES = np.linspace(-3, 3, 13)


def sides(rng: np.random.Generator, n: int = 6, m: int = 9, d: int = 3) -> Sides:
    """Queries and keys with different numbers, weights and places."""
    (x, u, _), (y, w, _) = tokens(rng, n, d), tokens(rng, m, d)
    return Sides(x, u, 0.7 * y + 0.3, w)


def points_of_queries(s: Sides) -> Points:
    return Points.weighted(s.x, s.u, position=np.linspace(0.1, 1, len(s.x)))


def points_of_keys(s: Sides) -> Points:
    return Points.weighted(s.y, s.w, position=np.linspace(0, 1, len(s.y)))


def make_attention(name: str, p: Parameters, **options: object) -> Attention:
    return attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon, **options)


@eqx.filter_jit
def cross_velocities(
    dynamics: AbstractDynamics, keys: Points, mu: Points, at: Tokens
) -> Array:
    return Cross(dynamics, keys).field(0.0, mu)(at)


@every_variant
@pytest.mark.parametrize("m", [9, 1])
def test_velocities_match_the_definition(name: str, m: int, rng: np.random.Generator):
    """At queries and elsewhere, for different and equal numbers of keys."""
    s, p = sides(rng, m=m), parameters(rng, 3, 2)
    places = np.concatenate([s.x, rng.normal(size=(4, 3))])
    v = cross_velocities(
        make_attention(name, p),
        points_of_keys(s),
        points_of_queries(s),
        Tokens(jnp.asarray(places)),
    )
    expected = velocity_across(name, p, places, s)
    assert_close(v, expected, ulps=ulps(name, 1000), scale=1.0)


@every_variant
def test_equal_numbers_of_keys_of_equal_weight(name: str, rng: np.random.Generator):
    """Plans by ranks are permutations there."""
    s, p, even = sides(rng, 8, 8), parameters(rng, 3), np.full(8, 1 / 8)
    s = Sides(s.x, even, s.y, even)
    mu = Points.uniform(s.x)
    v = cross_velocities(make_attention(name, p), Points.uniform(s.y), mu, mu.tokens)
    assert_close(v, velocity_across(name, p, s.x, s), ulps=ulps(name, 1000), scale=1.0)


@every_variant
def test_a_context_that_is_the_measure_is_self_attention(
    name: str, rng: np.random.Generator
):
    c: Case = case(rng)
    attention, mu = c.attention(name), c.points()
    self_velocities = velocities(attention, mu, c.queries())
    assert_close(
        cross_velocities(attention, mu, mu, c.queries()),
        self_velocities,
        ulps=ulps(name, 450),
    )


@pytest.mark.parametrize("iterations", [1, 2, 3, 4])
def test_half_steps_alternate_between_both_measures(
    iterations: int, rng: np.random.Generator
):
    s, p = sides(rng), parameters(rng, 3)
    attention = make_attention("sinkhorn", p, iterations=iterations)
    v = cross_velocities(
        attention, points_of_keys(s), points_of_queries(s), points_of_queries(s).tokens
    )
    kappa = half_steps_across(p, s.x, s, iterations=iterations)
    assert_close(v, (kappa * s.w) @ s.y @ p.V.T, ulps=1000)


def test_a_cross_plan_has_both_marginals_for_hard_scores(rng: np.random.Generator):
    """Nearly an assignment, where alternation stalls and Newton's steps converge."""
    s, eye = sides(rng, 30, 40), np.eye(3)
    attention = attentions["sinkhorn"](eye, eye, eye, epsilon=0.01)
    mu = points_of_queries(s)
    field = eqx.filter_jit(Cross(attention, points_of_keys(s)).field)(0.0, mu)
    assert field.convergence is not None
    assert field.convergence.residual <= field.convergence.tolerance
    v = 0.01 * np.asarray(field(mu.tokens))
    np.testing.assert_allclose(s.u @ v, s.w @ s.y, atol=1e-9)  # sums of columns


@pytest.mark.slow
def test_derivatives_of_a_cross_plan_match_differences(rng: np.random.Generator):
    s, p = sides(rng, 4, 5, 2), parameters(rng, 2)
    attention = make_attention("sinkhorn", p)
    tight = Attention(attention.score, Sinkhorn(tolerance=1e-13), attention.value)

    def total(x: Array, y: Array) -> Array:
        mu, nu = Points.weighted(x, s.u), Points.weighted(y, s.w)
        return jnp.sum(jnp.sin(Cross(tight, nu).field(0.0, mu)(mu.tokens)))

    at = (jnp.asarray(s.x), jnp.asarray(s.y))
    slopes = jax.jit(jax.grad(total, argnums=(0, 1)))(*at)
    value, h = jax.jit(total), 1e-5
    for side in (0, 1):
        way = rng.normal(size=at[side].shape)
        shifted_points = [[*at] for _ in range(2)]
        shifted_points[0][side], shifted_points[1][side] = (
            at[side] + h * way,
            at[side] - h * way,
        )
        difference = (value(*shifted_points[0]) - value(*shifted_points[1])) / (2 * h)
        assert abs(jnp.sum(slopes[side] * way) - difference) <= 1e-7 * (
            1 + abs(difference)
        )


def causal_velocities(s: Sides, name: str, p: Parameters) -> np.ndarray:
    """Velocities of each query under its visible part of the measures, pair by pair."""
    query_positions, key_positions = (
        np.linspace(0.1, 1, len(s.x)),
        np.linspace(0, 1, len(s.y)),
    )
    rows = []
    for x, at in zip(s.x, query_positions, strict=True):
        visible_queries, keys = query_positions <= at, key_positions <= at
        u = s.u[visible_queries] / np.sum(s.u[visible_queries])
        visible = Sides(
            s.x[visible_queries], u, s.y[keys], s.w[keys] / np.sum(s.w[keys])
        )
        rows.append(velocity_across(name, p, x[None], visible)[0])
    return np.array(rows)


@pytest.mark.parametrize("name", ["softmax", "linear", "sinkhorn", "esp"])
def test_masks_compare_queries_with_keys(name: str, rng: np.random.Generator):
    s, p = sides(rng), parameters(rng, 3)
    v = cross_velocities(
        Prefix(make_attention(name, p)),
        points_of_keys(s),
        points_of_queries(s),
        points_of_queries(s).tokens,
    )
    expected = causal_velocities(s, name, p)
    assert_close(v, expected, ulps=ulps(name, 1000), scale=1.0)


def test_masked_scores_are_masked_measures(rng: np.random.Generator):
    s, p = sides(rng), parameters(rng, 3)
    soft = make_attention("softmax", p)
    scores = Attention(Masked(soft.score, causal), soft.coupling, soft.value)
    velocities_of_both = [
        cross_velocities(
            law, points_of_keys(s), points_of_queries(s), points_of_queries(s).tokens
        )
        for law in (scores, Prefix(soft))
    ]
    assert_close(*velocities_of_both, ulps=300)


def test_a_mask_around_a_context_is_rejected(rng: np.random.Generator):
    s, p = sides(rng), parameters(rng, 3)
    with pytest.raises(InvalidInputError, match=r"Cross\(Prefix\(dynamics"):
        Prefix(
            Sum(
                Drift(np.eye(3)), Cross(make_attention("softmax", p), points_of_keys(s))
            )
        )


@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_heads_layers_and_terms_add_up(name: str, rng: np.random.Generator):
    s, ps = sides(rng), [parameters(rng, 3) for _ in range(4)]
    heads = [
        Heads(stack_trees([make_attention(name, p) for p in ps[i : i + 2]]))
        for i in (0, 2)
    ]
    layers = Cross(
        Layers(np.array([0.0, 1.0, 2.0]), stack_trees(heads)), points_of_keys(s)
    )
    layer = Sum(make_attention(name, ps[0]), layers)
    mu, self_sides = points_of_queries(s), Sides(s.x, s.u, s.x, s.u)
    reference = velocity_across(name, ps[0], s.x, self_sides)
    velocity = eqx.filter_jit(lambda t: layer.field(t, mu)(mu.tokens))
    for t, pair in ((0.5, ps[:2]), (1.5, ps[2:])):
        expected = reference + sum(velocity_across(name, p, s.x, s) for p in pair)
        v = velocity(jnp.asarray(t))
        assert_close(v, expected, ulps=3 * ulps(name, 1000), scale=1.0)


@pytest.mark.slow
def test_masked_heads_are_as_converged_as_the_worst(rng: np.random.Generator):
    """Heads of plans, prefix by prefix."""
    s, eye = sides(rng, 4, 5, 2), np.eye(2)
    score = [Dot(*rng.normal(size=(2, 2, 2)), epsilon=e) for e in (1.0, 0.1)]
    loose = Sinkhorn(max_iterations=2)
    heads = [Prefix(Attention(single_score, loose, eye)) for single_score in score]
    mu = points_of_queries(s)
    residual = eqx.filter_jit(lambda law: law.field(0.0, mu).convergence.residual)
    parts = [float(residual(head)) for head in heads]
    assert_close(residual(Heads(stack_trees(heads))), max(parts))


def test_terms_without_attention_commute_with_a_context(rng: np.random.Generator):
    s, p = sides(rng), parameters(rng, 3)
    mu, attention = points_of_queries(s), make_attention("softmax", p)
    for term in (Drift(p.Q), Perceptron(p.Q, p.K, bias=np.ones(3))):
        inside = Cross(Sum(attention, term), points_of_keys(s)).field(0.0, mu)(
            mu.tokens
        )
        outside = Sum(Cross(attention, points_of_keys(s)), term).field(0.0, mu)(
            mu.tokens
        )
        assert_close(inside, outside, scale=1.0)


def test_a_projection_inside_cross_attention_is_rejected():
    mu = Gaussian.from_moments(np.zeros(1), np.eye(1))
    dynamics = Cross(Projected(Perceptron(np.eye(1), np.eye(1))), mu)
    with pytest.raises(UnsupportedError, match=r"`Projected\(Cross\(dynamics, context"):
        dynamics.field(0.0, mu)


class RowwiseOnly(AbstractCoupling):
    """A coupling of a plugin that defines nothing for two measures."""

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return Affine(jnp.eye(2), jnp.zeros(2))


def test_a_coupling_without_cross_form_is_rejected_by_name():
    mu = Points.uniform(np.eye(2))
    attention = Attention(Dot(np.eye(2), np.eye(2)), RowwiseOnly(), np.eye(2))
    with pytest.raises(UnsupportedError, match=r"`RowwiseOnly` is not defined"):
        Cross(attention, mu).field(0.0, mu)
    assert not Cross(attention, mu).is_linearly_bounded(0.0, mu)


def test_dimensions_that_differ_are_rejected():
    attention = attentions["softmax"](*[np.eye(2)] * 3)
    cross = Cross(attention, Points.uniform(np.ones((4, 3))))
    with pytest.raises(InvalidInputError, match=r"dimension 3 and .* dimension 2"):
        cross.field(0.0, Points.uniform(np.eye(2)))


GROWTH_IS_BOUNDED: dict[str, bool] = {
    name: name != "exp" for name in unordered_variants
}


@every_variant
def test_growth_under_cross_attention_is_linear_except_exp(name: str):
    """Velocity over distance far away is bounded where the attention claims so."""
    identity, mu = np.eye(1), Points.uniform(np.ones((1, 1)))
    cross = Cross(
        attentions[name](identity, identity, identity), Points.uniform([[1.0], [2.0]])
    )
    assert bool(cross.is_linearly_bounded(0.0, mu)) == GROWTH_IS_BOUNDED[name]
    far = Tokens(jnp.array([[20.0], [200.0]]))
    v = cross_velocities(cross.dynamics, Points.uniform([[1.0], [2.0]]), mu, far)
    slopes = np.abs(np.asarray(v)[:, 0]) / np.asarray(far.x)[:, 0]
    assert (slopes[1] <= 1.01 * slopes[0]) == GROWTH_IS_BOUNDED[name]


def test_exp_attention_to_one_key_blows_up_on_time():
    r"""$x' = e^x$ from 0: at $t = 1$."""
    identity, key = np.eye(1), Points.uniform(np.ones((1, 1)))
    start = Points.uniform(np.zeros((1, 1)))
    end = flow(
        Cross(attentions["exp"](identity, identity, identity), key), start, [0.0, 2.0]
    )
    assert end.status == Status.BLOW_UP
    assert abs(float(end.t_star) - 1) <= max(1e-3, 2 * float(end.t_star_error))


@pytest.mark.slow_cases("9-sinkhorn", "9-softmax")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn", "l2", "esp", "esp-soft"])
@pytest.mark.parametrize("m", [9, 1])
def test_attention_weights_times_keys_give_the_field(
    name: str, m: int, rng: np.random.Generator
):
    """At the queries and elsewhere; after even half-steps, too."""
    s, p = sides(rng, m=m), parameters(rng, 3, 2)
    places = Tokens(jnp.asarray(np.concatenate([s.x, rng.normal(size=(4, 3))])))
    queries, keys = points_of_queries(s), points_of_keys(s)
    attention = make_attention(name, p)
    couplings = [attention.coupling]
    if name == "sinkhorn":
        couplings += [Sinkhorn(iterations=4), Sinkhorn(iterations=5)]
    for coupling in couplings:
        field = coupling.cross_barycentre(attention.score, queries, keys)
        assert isinstance(field, AbstractBarycentre)
        means = field.weights_at(places) @ keys.tokens.x
        np.testing.assert_allclose(means, field(places), rtol=0, atol=1e-12)
