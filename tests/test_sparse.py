"""Sparse Sinkhorn attention: dense matrices, order, causality."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import ordered_variants, velocities, weights_of
from conftest import CommandResult
from helpers import Case, assert_close, case, orthogonal
from numpy.testing import assert_allclose
from reference import Parameters
from sparse_reference import Sequence, cut_weights, local_weights, softmax_weights

from meanfield._typing import Numbers
from meanfield.attention import AbstractBarycentre, Attention, plans, symmetries
from meanfield.attention.sparse import (
    Layer,
    LearnedSorting,
    SortCut,
    SortingNetwork,
    Sparse,
    balance_logs,
)
from meanfield.attention.sparse import balance_logs_causally as balanced_in_order
from meanfield.dynamics import Heads, Prefix, stack_trees
from meanfield.measures import Blocked, Points
from meanfield.theorems.reference.sparse import balance as balanced_in_numpy
from meanfield.theorems.reference.sparse import balance_causally
from meanfield.tokens import Tokens

Run = Callable[..., CommandResult]
every_ordered_variant = pytest.mark.parametrize("name", ordered_variants)
SIZES = [(12, 4), (7, 4), (9, 2), (3, 5), (1, 4), (10, 1)]
every_size = pytest.mark.parametrize(
    ("n", "blocks"),
    # One place of the last block is empty, as of (7, 4).
    [pytest.param(*s, marks=pytest.mark.slow) if s == (9, 2) else s for s in SIZES],
)
CAUSAL = "sparse-sinkhorn-causal"
MIXTURE = "sparse-sinkhorn-causal-mixture"


def assert_same(actual: Numbers, expected: Numbers) -> None:
    """Equality to 1e-12."""
    assert_allclose(np.asarray(actual), expected, rtol=1e-12, atol=1e-12)


def networks(rng: np.random.Generator, blocks: int) -> dict:
    return {"W_B": 0.6 * rng.normal(size=(3, blocks)), "W_P": rng.normal(size=(3, 3))}


def scores_of(options: dict, pooled_states: np.ndarray, tau: float) -> np.ndarray:
    activations = np.maximum(pooled_states @ options["W_P"], 0)
    return np.maximum(activations @ options["W_B"], 0) / tau


def expected_weights(
    name: str, c: Case, blocks: int, options: dict, tau: float
) -> np.ndarray:
    """Expected weights by dense matrices, three passes and a budget of one block."""
    sequence = Sequence(c.x, c.w, blocks)
    if name in (CAUSAL, MIXTURE):
        logits = scores_of(options, sequence.pooled_before(), tau)
        R = balance_causally(np.exp(logits), 3)
        local = local_weights(c.p, sequence, R, True)
        is_mixture = name == MIXTURE
        return local + is_mixture * softmax_weights(c.p, c.x, c.w, causal=True)
    R = balanced_in_numpy(np.exp(scores_of(options, sequence.pooled(), tau)), 3)
    if name == "sortcut":
        return cut_weights(c.p, sequence, R, 1)
    local = local_weights(c.p, sequence, R, False)
    if name == "sparse-sinkhorn":
        return local
    return local + softmax_weights(c.p, c.x, c.w)


@every_ordered_variant
@every_size
def test_every_variant_matches_dense_matrices(
    name: str, n: int, blocks: int, rng: np.random.Generator
):
    """Weights and velocities, for unequal weights, also with incomplete blocks."""
    c, options, tau = case(rng, n=n), networks(rng, blocks), 1.5
    attention = c.attention(name, **options, temperature=tau, passes=3)
    mu = c.points()
    weights = expected_weights(name, c, blocks, options, tau)
    assert_same(weights_of(attention, mu), weights)
    v = velocities(attention, mu, mu.tokens)
    assert_same(v, weights @ c.x @ c.p.V.T)


@pytest.mark.parametrize("name", ["sparse-sinkhorn", CAUSAL])
def test_without_passes_weights_are_normalised_by_row(
    name: str, rng: np.random.Generator
):
    """Unscaled scores: the scale of a row cancels."""
    c, options = case(rng, n=7), networks(rng, 4)
    causal, sequence = name == CAUSAL, Sequence(c.x, c.w, 4)
    pooled_states = sequence.pooled_before() if causal else sequence.pooled()
    S = np.exp(scores_of(options, pooled_states, 1.5))
    weights = local_weights(c.p, sequence, np.tril(S) if causal else S, causal)
    attention = c.attention(name, **options, temperature=1.5, passes=0)
    assert_same(weights_of(attention, c.points()), weights)
    cold = c.attention(name, **options, temperature=1e-6, passes=0)
    assert np.all(np.isfinite(weights_of(cold, c.points())))


@every_ordered_variant
def test_matrix_free_values_match_the_matrix(name: str, rng: np.random.Generator):
    c = case(rng, n=7)
    attention = c.attention(name, blocks=3)
    barycentre = attention.coupling.barycentre(attention.score, c.points())
    assert isinstance(barycentre, AbstractBarycentre)
    values = rng.normal(size=(7, 2))
    expected = np.asarray(weights_of(attention, c.points())) @ values
    assert_same(barycentre.means(jnp.asarray(values)), expected)


@every_ordered_variant
def test_tokens_are_ordered_by_position(name: str, rng: np.random.Generator):
    """Stored in any order, and evaluated one at a time or twice."""
    c, mix = case(rng, n=9), rng.permutation(9)
    attention, mu = c.attention(name, blocks=2), c.points(Blocked(4))
    v = velocities(attention, mu, mu.tokens)
    s = mu.tokens.position
    assert s is not None
    permuted = Points.weighted(c.x[mix], c.w[mix], position=s[mix])
    assert_same(velocities(attention, permuted, permuted.tokens), v[mix])
    repeated_indices = np.array([4, 0, 4, 8])
    queries = Tokens(mu.tokens.x[repeated_indices], s[repeated_indices])
    assert_same(velocities(attention, mu, queries), v[repeated_indices])


def velocities_of_case(c: Case, name: str) -> np.ndarray:
    mu = c.points()
    return np.asarray(velocities(c.attention(name), mu, mu.tokens))


@every_ordered_variant
def test_sparse_sinkhorn_declares_no_symmetry(name: str, rng: np.random.Generator):
    """It depends on the order of tokens, and its network on their coordinates."""
    assert symmetries[name] == frozenset()
    c = case(rng, n=8)
    c = Case(Parameters(c.p.Q, c.p.K, np.eye(3), c.p.epsilon), c.x, c.w, c.probes)
    v, mix, R = velocities_of_case(c, name), rng.permutation(8), orthogonal(rng, 3)
    permuted = Case(c.p, c.x[mix], c.w[mix], c.probes)
    p = Parameters(c.p.Q @ R.T, c.p.K @ R.T, np.eye(3), c.p.epsilon)
    rotated, shift = Case(p, c.x @ R.T, c.w, c.probes), np.array([0.5, -1.0, 2.0])
    shifted_case = Case(c.p, c.x + shift, c.w, c.probes)
    for changed_case, expected in (
        (permuted, v[mix]),
        (rotated, v @ R.T),
        (shifted_case, v + shift),
    ):
        assert np.max(
            np.abs(velocities_of_case(changed_case, name) - expected)
        ) > 0.01 * np.max(np.abs(v))


def causal_velocities(c: Case, name: str) -> Callable[[jax.Array], jax.Array]:
    attention, mu = c.attention(name, blocks=3, passes=4), c.points()
    return jax.jit(
        lambda x: attention.field(0.0, mu.replace_coordinates(x))(
            mu.replace_coordinates(x).tokens
        )
    )


@pytest.mark.parametrize(("name", "n"), [(CAUSAL, 9), (CAUSAL, 8), (MIXTURE, 8)])
def test_causality_by_differences(name: str, n: int, rng: np.random.Generator):
    """Its velocity keeps every bit, whichever later token is moved, however far.

    Also for tokens of its own block.
    """
    c = case(rng, n=n)
    velocity, x = causal_velocities(c, name), jnp.asarray(c.x)
    v = np.asarray(velocity(x))
    for j in range(n):
        w = np.asarray(velocity(x.at[j].add(100.0 * rng.normal(size=3))))
        np.testing.assert_array_equal(w[:j], v[:j])
        assert np.any(w[j:] != v[j:])


def test_causality_by_derivatives(rng: np.random.Generator):
    c = case(rng, n=8)
    J = np.asarray(jax.jit(jax.jacrev(causal_velocities(c, CAUSAL)))(jnp.asarray(c.x)))
    assert np.all(np.isfinite(J))
    for i in range(8):
        assert not np.any(J[i, :, i + 1 :])
    for i in range(3, 8):  # other blocks are seen, through what is sorted
        assert np.any(np.abs(J[i, :, :3]) > 1e-6)


def test_a_query_between_tokens_joins_the_previous_block(rng: np.random.Generator):
    c = case(rng, n=8)
    attention, mu = c.attention(CAUSAL, blocks=3), c.points()
    at = Tokens(mu.tokens.x[:2], jnp.array([-0.1, 0.5]))
    v = velocities(attention, mu, at)
    assert not np.any(v[0])  # before all: it sees nothing
    third = Tokens(mu.tokens.x[1:2], mu.tokens.position[3:4])  # type: ignore[index]
    assert_close(v[1:], velocities(attention, mu, third))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
@pytest.mark.parametrize("n", [12, 10])
def test_a_permutation_and_all_blocks_are_softmax(
    order: list[int], n: int, rng: np.random.Generator
):
    c = case(rng, n=n)
    mu = c.points()
    cut = velocities(c.attention("sortcut", order=order, budget=4), mu, mu.tokens)
    soft = velocities(c.attention("softmax"), mu, mu.tokens)
    assert_same(cut, soft)
    assert (
        np.max(
            np.abs(
                velocities(c.attention("sortcut", order=order, budget=3), mu, mu.tokens)
                - soft
            )
        )
        > 1e-3
    )


@pytest.mark.parametrize("name", ["sparse-sinkhorn", "sortcut"])
def test_an_order_is_a_matrix_of_zeros_and_ones(name: str, rng: np.random.Generator):
    """Scores so far apart that balancing converges to the permutation."""
    c, order = case(rng, n=10), [2, 0, 3, 1]
    mu, P = c.points(), np.eye(4)[order]
    attention = c.attention(name, order=order)
    network = SortingNetwork((Layer(np.zeros((3, 4))),))
    logits = jnp.asarray(1e4 * P)
    soft = LearnedSorting(network, logits, jnp.asarray(1.0))
    kinds = {"sparse-sinkhorn": Sparse(soft), "sortcut": SortCut(soft)}
    learned_order = Attention(attention.score, kinds[name], attention.value)
    v = velocities(attention, mu, mu.tokens)
    assert_same(velocities(learned_order, mu, mu.tokens), v)


def test_balancing_tends_to_a_doubly_stochastic_matrix(rng: np.random.Generator):
    S = np.exp(balance_logs(jnp.asarray(3 * rng.normal(size=(8, 8))), 2000))
    np.testing.assert_allclose(S.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(S.sum(axis=1), 1, atol=1e-12)


def test_balancing_of_scores_of_thousands_stays_finite(rng: np.random.Generator):
    logits = jnp.asarray(1e4 * rng.normal(size=(6, 6)))
    for balancing in (balance_logs, balanced_in_order):
        slope = jax.grad(
            lambda X, balance=balancing: jnp.sum(jnp.exp(balance(X, 20)) ** 2)
        )
        assert np.all(np.isfinite(np.exp(balancing(logits, 20))))
        assert np.all(np.isfinite(slope(logits)))


def test_causal_balancing_is_division_by_sums_so_far(rng: np.random.Generator):
    logits = rng.normal(size=(6, 6))
    S = np.exp(balanced_in_order(jnp.asarray(logits), 4))
    assert_same(S, balance_causally(np.exp(logits), 4))


@every_ordered_variant
def test_excluded_tokens_are_padding(name: str, rng: np.random.Generator):
    """Wherever they are, whatever their values; derivatives ignore them."""
    c = case(rng, n=8)
    attention, mu = c.attention(name, blocks=3), c.points()
    s = np.asarray(mu.tokens.position)
    more_s, logs = np.append(s, [0.2, 0.7, 1.1]), np.asarray(mu.log_weights)
    more_logs = jnp.asarray(np.append(logs, [-np.inf] * 3))

    def velocities_with_padding(x: jax.Array) -> jax.Array:
        y = jnp.concatenate([x, jnp.full((3, 3), jnp.nan)])
        extended = Points(Tokens(y, jnp.asarray(more_s)), more_logs)
        return velocities(attention, extended, Tokens(x, jnp.asarray(s)))

    def velocities_without_padding(x: jax.Array) -> jax.Array:
        return velocities(
            attention, mu.replace_coordinates(x), Tokens(x, jnp.asarray(s))
        )

    def value_and_gradient(fn: Callable[[jax.Array], jax.Array]) -> list[jax.Array]:
        v, pullback = jax.vjp(fn, mu.tokens.x)
        return [v, pullback(2 * v)[0]]

    (v, gradient), (expected, expected_gradient) = (
        jax.jit(value_and_gradient, static_argnums=0)(fn)
        for fn in (velocities_with_padding, velocities_without_padding)
    )
    assert_close(v, expected)
    assert_close(gradient, expected_gradient, ulps=1000)


@every_ordered_variant
def test_derivatives_match_differences(name: str, rng: np.random.Generator):
    c, h = case(rng, n=7), 1e-5
    attention, mu = c.attention(name, blocks=3, temperature=2.0), c.points()
    total = jax.jit(
        lambda x: jnp.sum(
            attention.field(0.0, mu.replace_coordinates(x))(
                mu.replace_coordinates(x).tokens
            )
            ** 3
        )
    )
    x, way = mu.tokens.x, jnp.asarray(rng.normal(size=(7, 3)))
    slope = float(jnp.sum(jax.grad(total)(x) * way))
    quotient = float(total(x + h * way) - total(x - h * way)) / (2 * h)
    assert slope == pytest.approx(quotient, rel=1e-6)


@every_ordered_variant
def test_heads_sort_by_themselves(name: str, rng: np.random.Generator):
    """Each has its own network; all matrices can be plotted."""
    c = case(rng, n=8)
    mu = c.points()
    head_attentions = [c.attention(name, W_B=rng.normal(size=(3, 4))) for _ in range(2)]
    heads = Heads(stack_trees(head_attentions))
    parts = [
        np.asarray(velocities(attention, mu, mu.tokens))
        for attention in head_attentions
    ]
    assert np.max(np.abs(parts[0] - parts[1])) > 1e-3
    assert_close(heads.field(0.0, mu)(mu.tokens), parts[0] + parts[1])
    assert_close(plans(heads, 0.0, mu)[1], weights_of(head_attentions[1], mu))


def test_outer_masks_restrict_the_measure(rng: np.random.Generator):
    """Token by token: the attention of the visible tokens alone."""
    c = case(rng, n=7)
    attention, mu = c.attention("sparse-sinkhorn", blocks=2), c.points()
    v = jax.jit(lambda mu: Prefix(attention).field(0.0, mu)(mu.tokens))(mu)
    s = mu.tokens.position
    assert s is not None
    for i in (0, 3, 6):  # each is a program: one token, half a block, all
        visible = Points.weighted(c.x[: i + 1], c.w[: i + 1], position=s[: i + 1])
        at = Tokens(mu.tokens.x[i : i + 1], s[i : i + 1])
        assert_close(v[i : i + 1], velocities(attention, visible, at), scale=1.0)
