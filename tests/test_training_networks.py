"""Heads of the library in networks: Euler steps, padding, causality, gradients."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import (
    PAIRS,
    RECIPE,
    VARIANTS,
    WIDTH,
    D,
    N,
    make_pairs_task,
    points,
    to_double,
    to_single,
)

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.dynamics import Cross, Discontinuous
from meanfield.errors import UnsupportedError
from meanfield.measures import Dense, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens
from meanfield.training import (
    Encoder,
    Head,
    InducedBlock,
    Perceptron,
    Pooling,
    Residual,
    SelfAttention,
    TrainSpec,
    Variant,
    cross_attention,
    post_norm_block,
    pre_norm_block,
    self_attention,
    train,
)

Output = TypeVar("Output")


@eqx.filter_jit  # one program: operation by operation, most of the time is tracing
def output(part: Callable[..., Output], *measures: Points) -> Output:
    return part(*measures)


@pytest.mark.parametrize("name", sorted(attentions))
def test_a_block_without_norms_is_one_euler_step(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    variant = VARIANTS.get(name, Variant(name))
    layer = to_double(self_attention(key, variant, d=D, k=WIDTH, n_heads=2))
    block = Residual(layer, eqx.nn.Identity(), eqx.nn.Identity())
    mu = points(rng)
    if name == "linear-expansion":
        mu = mu.replace_coordinates(mu.tokens.x / 10)  # it expands in small scores
    velocity = output(lambda mu: layer.dynamics().field(0.0, mu)(mu.tokens), mu)
    step = mu.tokens.x + velocity
    np.testing.assert_allclose(output(block, mu).tokens.x, step, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("norm", [pre_norm_block, post_norm_block])
def test_padding_changes_nothing(
    name: str, norm: Callable[..., Residual], rng: np.random.Generator, key: PRNGKey
):
    keys = jax.random.split(key)
    parts = (
        self_attention(keys[0], VARIANTS[name], d=D, k=WIDTH, n_heads=2),
        Perceptron(keys[1], d=D, width=8),
    )
    encoder = to_single(Encoder(tuple(norm(part, D) for part in parts)))
    mu = points(rng)
    x = jnp.concatenate([mu.tokens.x, 7.0 * jnp.ones((5, D))]).astype(jnp.float32)
    position = jnp.arange(1, N + 6, dtype=jnp.float32) / N
    logs = jnp.where(jnp.arange(N + 5) < N, -jnp.log(float(N)), -jnp.inf)
    padded_points = Points(Tokens(x, position), logs.astype(jnp.float32), Dense())
    bare = Points(Tokens(x[:N], position[:N]), padded_points.log_weights[:N], Dense())
    out = output(encoder, padded_points).tokens.x[:N]
    np.testing.assert_allclose(out, output(encoder, bare).tokens.x, rtol=0, atol=1e-5)


def test_causal_layers_hide_later_tokens(rng: np.random.Generator, key: PRNGKey):
    variant = Variant("sparse-sinkhorn-causal", {"blocks": 4, "passes": 3})
    layer = to_single(self_attention(key, variant, d=D, k=WIDTH, n_heads=2))
    encoder = Encoder((pre_norm_block(layer, D), pre_norm_block(layer, D)))
    mu = to_single(points(rng))
    out = output(encoder, mu).tokens.x
    for t in (1, 4, 7):
        x = mu.tokens.x.at[t].set(5.0)
        changed_output = output(encoder, mu.replace_coordinates(x)).tokens.x
        assert np.array_equal(changed_output[:t], out[:t])
        assert not np.array_equal(changed_output[t:], out[t:])


def test_heads_apply_the_attention_matrix_of_the_library(
    rng: np.random.Generator, key: PRNGKey
):
    layer = to_double(self_attention(key, VARIANTS["softmax"], d=D, k=WIDTH, n_heads=1))
    head = jax.tree.map(lambda a: a[0], layer.heads)
    assert isinstance(head, Head)
    assert isinstance(head.score, Dot)
    mu = points(rng)
    x = np.asarray(mu.tokens.x)
    S = (x @ np.asarray(head.score.Q).T) @ (x @ np.asarray(head.score.K).T).T
    P = np.exp(S / np.sqrt(WIDTH))
    P /= P.sum(axis=1, keepdims=True)
    expected = (
        P
        @ x
        @ np.asarray(head.value_projection).T
        @ np.asarray(head.output_projection).T
    )
    np.testing.assert_allclose(output(layer, mu), expected, rtol=0, atol=1e-13)


def test_attention_without_weights_is_rejected_as_a_head():
    variant = Variant("differential", {"normalised": True})
    with pytest.raises(UnsupportedError, match="more than add up weighted values"):
        variant.build_attention(jax.random.key(0), d=D, k=WIDTH)


@pytest.mark.parametrize("name", sorted(attentions))
def test_discontinuous_attention_is_rejected_and_the_rest_has_gradients(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    variant = VARIANTS.get(name, Variant(name))
    layer = to_single(self_attention(key, variant, d=D, k=WIDTH, n_heads=1))
    if isinstance(layer.heads.coupling, Discontinuous):
        make_pairs_task()
        with pytest.raises(UnsupportedError, match="has no gradient"):
            train(TrainSpec(PAIRS, variant, RECIPE, (0,)), Path("unused"))
        return
    mu = to_single(points(rng))
    size = lambda layer: jnp.sum(layer(mu) ** 2)
    slope = eqx.filter_jit(eqx.filter_grad(size))(layer)
    assert np.isfinite(slope.heads.value_projection).all()
    assert np.any(np.asarray(slope.heads.value_projection) != 0)


CROSSING = sorted(set(VARIANTS) - {"sparse-sinkhorn"})


@pytest.mark.parametrize("name", CROSSING)
def test_cross_heads_match_cross_attention(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    layer = to_double(cross_attention(key, VARIANTS[name], d=D, k=WIDTH, n_heads=2))
    queries, keys = points(rng, 5), points(rng, 9)
    heads = SelfAttention(layer.heads).dynamics()
    cross_attention_velocity = lambda mu, nu: Cross(heads, nu).field(0.0, mu)(mu.tokens)
    velocity = output(cross_attention_velocity, queries, keys)
    actual = output(layer, queries, keys)
    np.testing.assert_allclose(actual, velocity, rtol=0, atol=1e-12)


@pytest.mark.slow_cases("sinkhorn", "differential", "esp-soft")
@pytest.mark.parametrize("name", CROSSING)
def test_set_networks_ignore_order_and_padding(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    keys = jax.random.split(key)
    block = InducedBlock(keys[0], VARIANTS[name], m=3, d=D, k=WIDTH, n_heads=2)
    pooling = Pooling(keys[1], VARIANTS[name], m=2, d=D, k=WIDTH, n_heads=2)
    block, pooling = to_double(block), to_double(pooling)
    pooled_output = lambda mu: output(lambda mu: pooling(block(mu)), mu)
    mu = points(rng)
    order = rng.permutation(N)
    permuted = Points(Tokens(mu.tokens.x[order]), mu.log_weights, Dense())
    np.testing.assert_allclose(
        pooled_output(permuted), pooled_output(mu), rtol=0, atol=1e-11
    )
    x = jnp.concatenate([mu.tokens.x, jnp.ones((4, D))])
    logs = jnp.concatenate([mu.log_weights, jnp.full(4, -jnp.inf)])
    padded_points = Points(Tokens(x), logs, Dense())
    np.testing.assert_allclose(
        pooled_output(padded_points), pooled_output(mu), rtol=0, atol=1e-11
    )


def test_attention_without_cross_matrix_is_rejected(
    rng: np.random.Generator, key: PRNGKey
):
    variant = VARIANTS["sparse-sinkhorn"]
    layer = to_double(cross_attention(key, variant, d=D, k=WIDTH, n_heads=1))
    with pytest.raises(UnsupportedError, match="attend to another measure"):
        layer(points(rng, 5), points(rng, 9))
