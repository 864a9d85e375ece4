"""Masked heads in networks: no leak in the last digit, no NaN gradient."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import VARIANTS, WIDTH, D, N, points, to_single

from meanfield._typing import PRNGKey
from meanfield.attention import Softmax
from meanfield.measures import Dense, Points
from meanfield.scores import BlockLocal, Masked, SquaredDistance
from meanfield.tokens import Tokens
from meanfield.training import Encoder, Variant, pre_norm_block, self_attention


@pytest.mark.parametrize("name", ["softmax", "differential", "l2"])
def test_causal_masks_hide_later_tokens_bit_for_bit(
    name: str, rng: np.random.Generator, key: PRNGKey
):
    options = VARIANTS[name].options if name in VARIANTS else {}
    variant = Variant(name, options, mask="causal")
    layer = self_attention(key, variant, d=D, k=WIDTH, n_heads=2)
    encoder = to_single(Encoder((pre_norm_block(layer, D), pre_norm_block(layer, D))))
    mu = to_single(points(rng))
    logits = eqx.filter_jit(encoder)(mu).tokens.x
    for t in (1, 4, 7):
        x = mu.tokens.x.at[t].set(5.0)
        changed_output = eqx.filter_jit(encoder)(mu.replace_coordinates(x)).tokens.x
        assert np.array_equal(changed_output[:t], logits[:t])
        assert not np.array_equal(changed_output[t:], logits[t:])


def test_far_from_the_origin_masked_weights_keep_their_digits(rng: np.random.Generator):
    """Raw squares at a distance of 1e6 are 1e12, with rounding errors of 1e-4."""
    score = Masked(SquaredDistance(np.eye(D), np.eye(D)), BlockLocal(0.5))
    mu = points(rng)
    far = mu.replace_coordinates(mu.tokens.x + 1e6)
    weights = Softmax().barycentre(score, far).weights()
    x = np.asarray(far.tokens.x)
    S = -(np.linalg.norm(x[:, None] - x[None], axis=-1) ** 2)
    half = np.arange(N) < N // 2
    P = np.where(half[:, None] == half, np.exp(S), 0)
    expected = P / P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-8)


def test_a_first_token_far_from_the_others_costs_no_digits(rng: np.random.Generator):
    """Blocks mask no later tokens, so keys are centred."""
    score = Masked(SquaredDistance(np.eye(D), np.eye(D)), BlockLocal(0.5))
    mu = points(rng)
    shifted_measure = mu.replace_coordinates((mu.tokens.x + 1e3).at[0].set(0.0))
    single = (
        Softmax().barycentre(to_single(score), to_single(shifted_measure)).weights()
    )
    assert single.dtype == np.float32
    double = Softmax().barycentre(score, shifted_measure).weights()
    np.testing.assert_allclose(single, double, rtol=0, atol=5e-3)


@pytest.mark.parametrize("n_visible", [2, 4, 5])
@pytest.mark.parametrize("name", ["softmax", "differential"])
def test_rows_of_padding_are_zero_with_finite_gradient(
    name: str, n_visible: int, rng: np.random.Generator, key: PRNGKey
):
    options = VARIANTS[name].options
    variant = Variant(name, options, mask="block-local:1/4")
    layer = to_single(self_attention(key, variant, d=D, k=WIDTH, n_heads=2))
    x = jnp.asarray(rng.normal(size=(N, D)), jnp.float32)
    places = jnp.arange(1, N + 1, dtype=jnp.float32) / N
    logs = jnp.where(jnp.arange(N) < n_visible, -np.log(n_visible), -jnp.inf)
    mu = Points(Tokens(x, places), logs.astype(jnp.float32), Dense())
    blind = 2 * -(-n_visible // 2)  # blocks of two
    assert np.all(np.asarray(eqx.filter_jit(layer)(mu))[blind:] == 0)

    gradient = lambda size: eqx.filter_jit(eqx.filter_grad(size))(layer)
    actual = gradient(lambda layer: jnp.sum(layer(mu)[:n_visible] ** 2))
    bare = Points(
        Tokens(mu.tokens.x[:n_visible], places[:n_visible]), logs[:n_visible], Dense()
    )
    expected = gradient(lambda layer: jnp.sum(layer(bare) ** 2))
    for value, reference in zip(
        jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(value, reference, rtol=0, atol=1e-4)
