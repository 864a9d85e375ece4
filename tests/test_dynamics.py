"""Composite dynamics: prefixes and masks, sums, heads, layers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import every_variant, unordered_variants
from helpers import Case, assert_close, case, gaussian, parameters
from jaxtyping import Array
from reference import Parameters, masked_velocity, velocity

from meanfield.attention import Attention, Sinkhorn, Softmax, attentions, plans
from meanfield.dynamics import (
    AbstractDynamics,
    Drift,
    Heads,
    Interpolated,
    Layers,
    Perceptron,
    Prefix,
    Sum,
    Window,
    causal,
    stack_trees,
)
from meanfield.dynamics.prefix import Mask
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import Affine
from meanfield.flows import fixed, flow
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import Dot, Masked
from meanfield.tokens import Tokens

# A Sinkhorn solve stops at a marginal error of 4e-11: that, in units of eps.
SOLVER_ULPS = 3.0 * np.finfo(np.float64).eps ** (-1 / 3)
ULPS = {"sinkhorn": SOLVER_ULPS}


@eqx.filter_jit
def velocities(dynamics: AbstractDynamics, mu: Points, t: float = 0.0) -> Array:
    return dynamics.field(t, mu)(mu.tokens)


@eqx.filter_jit
def affine(dynamics: AbstractDynamics, mu: AbstractMeasure) -> Affine:
    field = dynamics.field(0.0, mu)
    assert isinstance(field, Affine)
    return field


def causal_mask(n: int) -> np.ndarray:
    return np.tril(np.ones((n, n), bool))


# Masks


@pytest.mark.slow_cases("esp-soft", "esp-soft-published")
@every_variant
def test_prefix_uses_the_restricted_measure(name: str, rng: np.random.Generator):
    """Token by token, against the reference on the visible tokens alone."""
    c = case(rng)
    v = velocities(Prefix(c.attention(name)), c.points())
    expected = masked_velocity(name, c.p, c.x, c.w, causal_mask(len(c.x)))
    assert_close(v, expected, ulps=ULPS.get(name, 300), scale=1.0)


@pytest.mark.slow_cases("esp-soft-published", "esp-soft")
@every_variant
def test_window_uses_the_restricted_measure(name: str, rng: np.random.Generator):
    c = case(rng)
    position = np.linspace(0, 1, 7)
    lag = position[:, None] - position[None, :]
    sees = (lag >= 0) & (lag <= 0.4)
    v = velocities(Prefix(c.attention(name), Window(0.4)), c.points())
    assert_close(
        v,
        masked_velocity(name, c.p, c.x, c.w, sees),
        ulps=ULPS.get(name, 300),
        scale=1.0,
    )


def row_wise() -> list[str]:
    """The variants whose weights for a query depend only on its row of scores."""
    identity = np.eye(1)
    variants = {
        name: make(identity, identity, identity) for name, make in attentions.items()
    }
    names = {n for n, a in variants.items() if not isinstance(a.coupling, Sinkhorn)}
    # Weights that no row normalises lose mass under a mask; `Prefix` restores it.
    return sorted(names & {"softmax", "l2", "linear-expansion"})


@pytest.mark.parametrize("name", row_wise())
@pytest.mark.parametrize("mask", [causal, Window(0.4)], ids=["causal", "window"])
def test_masked_scores_match_the_fast_prefix(
    name: str, mask: Mask, rng: np.random.Generator
):
    c = case(rng)
    plain = c.attention(name)
    masked = Attention(Masked(plain.score, mask), plain.coupling, plain.value)
    fast = velocities(masked, c.points())
    assert_close(fast, velocities(Prefix(plain, mask), c.points()), scale=1.0)


@pytest.mark.slow_cases("sinkhorn", "esp-soft", "esp-soft-published")
@every_variant
def test_later_tokens_have_no_influence(name: str, rng: np.random.Generator):
    """The derivative of token i's velocity in token j > i is exactly zero."""
    c = case(rng, n=5, d=2)
    prefix, mu = Prefix(c.attention(name)), c.points()
    v = lambda x: prefix.field(0.0, mu.replace_coordinates(x))(
        Tokens(x, mu.tokens.position)
    )
    J = jax.jit(jax.jacrev(v))(mu.tokens.x)
    assert jnp.all(jnp.isfinite(J))
    for i in range(5):
        assert not np.any(J[i, :, i + 1 :])
    assert np.any(np.abs(J[4, :, :4]) > 1e-8)  # and the past has some


def test_equal_positions_see_each_other(rng: np.random.Generator):
    c = case(rng, n=4)
    mu = Points.weighted(c.x, c.w, position=[0.0, 0.5, 0.5, 1.0])
    sees = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    v = velocities(Prefix(c.attention("softmax")), mu)
    assert_close(v, masked_velocity("softmax", c.p, c.x, c.w, sees))


@pytest.mark.slow
def test_a_token_that_sees_nothing_stays(rng: np.random.Generator):
    """The first tokens have no weight, so that nothing is visible there."""
    c = case(rng, n=4, d=2)
    mu = Points.weighted(c.x, [0.0, 0.0, 1.0, 3.0], position=np.linspace(0, 1, 4))
    for name in ("softmax", "sinkhorn", "exp"):
        prefix = Prefix(c.attention(name))
        v = velocities(prefix, mu)
        assert_close(v[:2], jnp.zeros((2, 2)))
        assert np.all(np.isfinite(v))
        assert np.any(v[2:])
        total = lambda x, p=prefix: jnp.sum(
            p.field(0.0, mu.replace_coordinates(x))(mu.replace_coordinates(x).tokens)
            ** 2
        )
        assert jnp.all(jnp.isfinite(jax.jit(jax.grad(total))(mu.tokens.x)))


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn", "sigmoid"])
def test_a_token_that_sees_nothing_has_no_offset_either(
    name: str, rng: np.random.Generator
):
    """With no visible token, or only excluded ones, it stays in spite of the offset."""
    c = case(rng, n=4, d=2)
    bare, offset = c.attention(name), np.array([0.3, -0.2])
    moves = Attention(bare.score, bare.coupling, bare.value, jnp.asarray(offset))
    w = np.array([0.0, 0.0, 0.25, 0.75])
    mu = Points.weighted(c.x, w, position=np.linspace(0, 1, 4))
    expected = masked_velocity(name, c.p, c.x, w, causal_mask(4))
    expected[2:] += offset
    assert_close(velocities(Prefix(moves), mu), expected, ulps=SOLVER_ULPS)

    def nobody(query: Array, key: Array) -> Array:
        return (key < query) & (key > 0.5)

    sees = np.zeros((4, 4), bool)
    sees[3, 2] = True
    expected = masked_velocity(name, c.p, c.x, w, sees)
    expected[3] += offset
    assert_close(velocities(Prefix(moves, nobody), mu), expected, ulps=SOLVER_ULPS)


def test_a_token_that_sees_nothing_gives_no_weight(rng: np.random.Generator):
    """The first token sees only itself, and is excluded: its row of the plan is 0."""
    c = case(rng, n=4)
    weights = np.array([0.0, 0.5, 0.3, 0.2])
    mu = Points.weighted(c.x, weights, position=np.linspace(0, 1, 4))
    attention = c.attention("softmax")
    masked = Attention(Masked(attention.score, causal), Softmax(), attention.value)
    for dynamics in (masked, Prefix(attention)):
        matrix = np.asarray(plans(dynamics, 0.0, mu)[0])
        assert_close(matrix.sum(1), np.array([0.0, 1.0, 1.0, 1.0]))
        assert_close(np.triu(matrix, 1), np.zeros((4, 4)))


def test_drifts_contribute_no_attention_matrix(rng: np.random.Generator):
    c = case(rng, n=4)
    mu, attention = c.points(), c.attention("softmax")
    drift, eye = Drift(np.eye(mu.dimension)), np.eye(mu.dimension)
    total = Sum(attention, drift, Perceptron(eye, eye))
    assert_close(plans(total, 0.0, mu), plans(attention, 0.0, mu))
    with pytest.raises(UnsupportedError, match="`Drift` has no attention matrix"):
        plans(drift, 0.0, mu)


@pytest.mark.slow
def test_a_nonuniform_time_marginal_is_a_choice_of_weights(rng: np.random.Generator):
    """Repeating a token is the same as giving it the weight of its copies."""
    c = case(rng, n=4)
    position = np.array([0.1, 0.2, 0.6, 0.9])
    copies = np.array([1, 3, 2, 1])
    weighted = Points.weighted(c.x, copies, position=position)
    repeated_points = Points.uniform(
        np.repeat(c.x, copies, axis=0), position=np.repeat(position, copies)
    )
    for name in ("softmax", "sinkhorn", "sigmoid"):
        prefix = Prefix(c.attention(name))
        v = velocities(prefix, repeated_points)
        last_copies = np.cumsum(copies) - 1
        assert_close(v[last_copies], velocities(prefix, weighted), ulps=SOLVER_ULPS)


@pytest.mark.slow
def test_prefix_reports_the_worst_of_its_solves(rng: np.random.Generator):
    c = case(rng, n=6)
    hasty = Attention(Dot(c.p.Q, c.p.K, 0.1), Sinkhorn(max_iterations=2), c.p.V)
    solves = jax.jit(lambda mu: Prefix(hasty).field(0.0, mu).convergence)
    actual = solves(c.points())
    assert actual.residual > actual.tolerance
    first = Points.uniform(c.x[:1], position=[0.0])
    first_convergence = solves(first)
    assert (
        first_convergence.residual <= first_convergence.tolerance
    )  # one token: nothing to solve
    assert Prefix(c.attention("softmax")).field(0.0, c.points()).convergence is None


@pytest.mark.slow
def test_prefix_flows(rng: np.random.Generator):
    """Token i of a causal flow moves like in the flow of tokens 0..i."""
    c = case(rng, n=5, d=2)
    for name in ("softmax", "sinkhorn"):
        prefix = Prefix(c.attention(name))
        whole = flow(prefix, c.points(), [0.0, 0.2], stepping=fixed(0.1))
        x, w = c.x[:3], c.w[:3]
        for _ in range(2):
            x = x + 0.1 * masked_velocity(name, c.p, x, w, causal_mask(3))
        assert whole.status == Status.FINISHED
        assert_close(whole.last[:3], x, ulps=SOLVER_ULPS)


def test_masks_need_positions_and_points(rng: np.random.Generator):
    c = case(rng)
    prefix = Prefix(c.attention("softmax"))
    with pytest.raises(InvalidInputError, match="position"):
        prefix.field(0.0, Points.uniform(c.x))
    with pytest.raises(InvalidInputError, match="position"):
        prefix.field(0.0, c.points())(c.queries())
    with pytest.raises(UnsupportedError, match="points"):
        prefix.field(0.0, gaussian(rng, 3))
    masked = Attention(Masked(Dot(c.p.Q, c.p.K), causal), Softmax(), c.p.V)
    with pytest.raises(InvalidInputError, match="position"):
        masked.field(0.0, c.points())(c.queries())


# Sums and heads


def members(rng: np.random.Generator, name: str, count: int = 3) -> list[Attention]:
    ps = [parameters(rng, 3) for _ in range(count)]
    return [attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon) for p in ps]


@pytest.mark.slow_cases("sinkhorn", "esp-soft-published", "esp")
@every_variant
def test_heads_are_the_sum_of_their_members(name: str, rng: np.random.Generator):
    c = case(rng)
    head_list = members(rng, name)
    heads = velocities(Heads(stack_trees(head_list)), c.points())
    total = sum(np.asarray(velocities(head, c.points())) for head in head_list)
    assert_close(heads, total, ulps=ULPS.get(name, 300), scale=1.0)
    assert_close(
        velocities(Sum(*head_list), c.points()), total, ulps=ULPS.get(name, 300)
    )


def test_heads_built_by_vmap_are_heads_built_by_stacking(rng: np.random.Generator):
    c = case(rng)
    for name in unordered_variants:
        heads = members(rng, name)
        Q, K = (jnp.stack([getattr(head.score, m) for head in heads]) for m in "QK")
        carries = name in ("sinkhorn", "linear-expansion")  # 1 / epsilon in the value
        V = jnp.stack([head.value for head in heads]) * (0.8 if carries else 1)
        make = lambda Q, K, V, name=name: attentions[name](Q, K, V, epsilon=0.8)
        vmapped = Heads(eqx.filter_vmap(make)(Q, K, V))
        expected = velocities(Heads(stack_trees(heads)), c.points())
        assert_close(velocities(vmapped, c.points()), expected, ulps=SOLVER_ULPS)


@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn", "linear"])
def test_heads_of_a_gaussian_are_affine(name: str, rng: np.random.Generator):
    mu, head_list = gaussian(rng, 3, 2), members(rng, name)
    heads, total = (
        affine(Heads(stack_trees(head_list)), mu),
        affine(Sum(*head_list), mu),
    )
    fields = [affine(head, mu) for head in head_list]
    assert_close(heads.linear, sum(np.asarray(f.linear) for f in fields))
    assert_close(heads.offset, sum(np.asarray(f.offset) for f in fields))
    assert_close(total.linear, heads.linear)
    assert_close(total.offset, heads.offset)


def test_differential_attention_is_two_heads(rng: np.random.Generator):
    c, second_map = case(rng), parameters(rng, 3)
    first = c.attention("softmax")
    second = attentions["softmax"](second_map.Q, second_map.K, -0.4 * c.p.V)
    v = velocities(Heads(stack_trees([first, second])), c.points())
    minus = Parameters(second_map.Q, second_map.K, 0.4 * c.p.V)
    expected = velocity("softmax", c.p, c.x, c.x, c.w)
    assert_close(v, expected - velocity("softmax", minus, c.x, c.x, c.w))


def test_a_sum_mixes_kinds_and_reports_the_worst(rng: np.random.Generator):
    c = case(rng)
    hasty = Attention(Dot(c.p.Q, c.p.K, 0.1), Sinkhorn(max_iterations=2), c.p.V)
    mixed = Sum(c.attention("softmax"), hasty, c.attention("sinkhorn"))
    actual = eqx.filter_jit(lambda mu: mixed.field(0.0, mu).convergence)(c.points())
    assert actual is not None
    assert actual.residual > actual.tolerance


def test_heads_of_a_prefix_and_prefix_of_heads_agree(rng: np.random.Generator):
    c, heads = case(rng), members(rng, "softmax", 2)
    inside = Prefix(Heads(stack_trees(heads)))
    outside = Heads(stack_trees([Prefix(head) for head in heads]))
    assert_close(velocities(outside, c.points()), velocities(inside, c.points()))


def test_different_dynamics_cannot_be_stacked(rng: np.random.Generator):
    c, wide = case(rng), case(rng, d=4)
    for mismatched in (
        [c.attention("softmax"), c.attention("l2")],
        [c.attention("softmax"), wide.attention("softmax")],
    ):
        with pytest.raises(InvalidInputError, match="Sum"):
            stack_trees(mismatched)
    with pytest.raises(InvalidInputError):
        Sum()


# Depth


def make_layers(
    rng: np.random.Generator,
) -> tuple[Case, list[Attention], AbstractDynamics]:
    layers = members(rng, "softmax")
    return case(rng), layers, stack_trees(layers)


def test_each_layer_acts_on_its_interval(rng: np.random.Generator):
    c, single_layers, stack = make_layers(rng)
    layers = Layers([0.0, 1.0, 1.5, 4.0], stack)
    for t, index in [(-1, 0), (0, 0), (0.99, 0), (1, 1), (1.5, 2), (4, 2), (9, 2)]:
        actual = velocities(layers, c.points(), float(t))
        assert_close(actual, velocities(single_layers[index], c.points()), ulps=10)
    assert_close(layers.jumps, [1.0, 1.5])


def test_interpolation_is_linear_in_the_parameters(rng: np.random.Generator):
    c, layers, stack = make_layers(rng)
    between = Interpolated([0.0, 1.0, 3.0], stack)
    blends = [
        (-1, 0, 0, 0),
        (0.25, 0, 1, 0.25),
        (1, 1, 1, 0),
        (2.5, 1, 2, 0.75),
        (9, 2, 2, 0),
    ]
    for t, i, j, s in blends:
        a, b = layers[i], layers[j]
        mixed = jax.tree.map(lambda u, v, s=s: (1 - s) * u + s * v, a, b)
        actual = velocities(between, c.points(), float(t))
        assert_close(actual, velocities(mixed, c.points()))


def test_depth_composes_with_everything(rng: np.random.Generator):
    """Layers of heads, and sums with them, keep their jumps."""
    c, single_layers, _ = make_layers(rng)
    heads = [
        Heads(stack_trees(single_layers[:2])),
        Heads(stack_trees(single_layers[1:])),
    ]
    layers = Layers([0.0, 1.0, 2.0], stack_trees(heads))
    assert_close(Sum(layers, single_layers[0]).jumps, [1.0])
    assert_close(Prefix(layers).jumps, [1.0])
    assert_close(Heads(stack_trees([layers, layers])).jumps, [1.0, 1.0])
    expected = velocities(single_layers[1], c.points()) + velocities(
        single_layers[2], c.points()
    )
    assert_close(velocities(layers, c.points(), 1.2), expected)


def test_depths_that_do_not_fit_are_rejected(rng: np.random.Generator):
    _, _, stack = make_layers(rng)
    for arguments in (
        lambda: Layers([0.0, 1.0], stack),
        lambda: Layers([0.0, 2.0, 1.0, 3.0], stack),
        lambda: Layers([0.0], stack),
        lambda: Interpolated([0.0, 1.0], stack),
        lambda: Interpolated([0.0, 0.0, 1.0], stack),
    ):
        with pytest.raises(InvalidInputError, match="times") as error_info:
            arguments()
        assert "\n" not in str(error_info.value)
