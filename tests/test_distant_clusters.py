"""Compact groups of tokens far apart: rounding errors scale with the group."""

from collections.abc import Callable
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from meanfield import Blocked, Dense, Drift, Points, Sum, Tokens, attentions, flow
from meanfield.attention import scalings
from meanfield.attention._coupling import TiltedMean
from meanfield.attention.sliced._mean import HardMean, equal_shares
from meanfield.energies import Interaction, SinkhornDivergence
from meanfield.measures import AbstractReduction
from meanfield.scores import Dot, Masked, SquaredDistance, causal

# As far as the square of a distance has units in the last place above 1.
FAR = {"float32": 1e4, "float64": 1e8}
DTYPES = list(FAR)
# Scores are sums of a few terms of at most 40, all others have no weight.
EXACT = {"float32": 1e-5, "float64": 1e-13}


def groups(rng: np.random.Generator, dtype: str, d: int = 2) -> np.ndarray:
    """Ten tokens of spread one at +L and at -L along the first axis."""
    c, L = rng.normal(size=(10, d)) / np.sqrt(d), np.eye(d)[0] * FAR[dtype]
    return np.concatenate([c + L, 0.7 * c[::-1] - L]).astype(dtype)


def planes_of_tokens(rng: np.random.Generator, dtype: str, d: int = 2) -> np.ndarray:
    """Groups in planes across the first axis: products of keys and L are equal."""
    x = groups(rng, dtype, d)
    x[:, 0] = np.sign(x[:, 0]) * FAR[dtype]
    return x


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared distances, from differences of the exact floats."""
    return ((x.astype(float)[:, None] - y.astype(float)[None]) ** 2).sum(-1)


def softmax_within_groups(x: np.ndarray) -> np.ndarray:
    """Softmax of products of tokens in two planes: L² is constant in a row."""
    y, is_upper = x[:, 1:].astype(float), x[:, 0] > 0
    is_other_group = is_upper[:, None] != is_upper[None]
    return softmax(np.where(is_other_group, -np.inf, y @ y.T))


def sinkhorn(x: np.ndarray) -> np.ndarray:
    """The plan of x·y, equal to that of -|x - y|²/2, by averaged steps."""
    s, f = -squares(x, x) / 2, np.zeros(len(x))
    for _ in range(500):
        f = (f - np.asarray(logsumexp(s + f[None] - np.log(len(x)), axis=1))) / 2
    return np.exp(s + f[:, None] + f[None]) / len(x)


def error_across(actual: object, x: np.ndarray, matrix: np.ndarray) -> float:
    """The largest error of barycentres across the line of the groups."""
    gap = np.asarray(actual, float) - matrix @ x.astype(float)
    return float(np.abs(gap)[:, 1:].max())


def velocity(name: str, mu: Points) -> jax.Array:
    identity = jnp.eye(mu.dimension, dtype=mu.tokens.x.dtype)
    field = lambda mu: attentions[name](identity, identity, identity).field(0.0, mu)(
        mu.tokens
    )
    return jax.jit(field)(mu)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [2, 64])
def test_l2_sees_differences_within_a_group(
    dtype: str, d: int, rng: np.random.Generator
):
    """Also in many dimensions, where ordinary scores are a matrix product."""
    x = groups(rng, dtype, d)
    actual = velocity("l2", Points.uniform(x))
    assert error_across(actual, x, softmax(-squares(x, x))) <= EXACT[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [2, 64])
def test_softmax_sees_differences_within_a_group(
    dtype: str, d: int, rng: np.random.Generator
):
    x = planes_of_tokens(rng, dtype, d)
    actual = velocity("softmax", Points.uniform(x))
    assert error_across(actual, x, softmax_within_groups(x)) <= EXACT[dtype]


@pytest.mark.parametrize(
    "dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"]
)
def test_sinkhorn_sees_differences_within_a_group(dtype: str, rng: np.random.Generator):
    x = groups(rng, dtype)
    # Potentials are asked for to eps^(2/3).
    tolerance = 10 * np.finfo(dtype).eps ** (2 / 3)
    assert (
        error_across(velocity("sinkhorn", Points.uniform(x)), x, sinkhorn(x))
        <= tolerance
    )


@pytest.mark.parametrize("reduction", [Dense(), Blocked(7)])
def test_every_reduction_keeps_differences_within_a_group(
    reduction: AbstractReduction, rng: np.random.Generator
):
    """In blocks with a mask, and dense; three groups, one of them near."""
    x = np.concatenate([groups(rng, "float64"), rng.normal(size=(5, 2))])
    place = np.linspace(0, 1, len(x))
    mu = Points.uniform(x, position=place, reduction=reduction)
    score = Masked(SquaredDistance(jnp.eye(2), jnp.eye(2)), causal)
    actual = jax.jit(lambda mu: mu.tilted_mean(score, mu.tokens))(mu)
    is_masked = place[None] > place[:, None]
    weights = softmax(np.where(is_masked, -np.inf, -squares(x, x)))
    assert error_across(actual, x, weights) <= EXACT["float64"]


def test_attention_weights_match_the_velocities(rng: np.random.Generator):
    identity, x = jnp.eye(2), planes_of_tokens(rng, "float64")
    field = attentions["softmax"](identity, identity, identity).coupling.barycentre
    weights = lambda mu: cast(TiltedMean, field(Dot(identity, identity), mu)).weights()
    matrix = jax.jit(weights)(Points.uniform(x))
    assert np.abs(matrix - softmax_within_groups(x)).max() <= EXACT["float64"]


def test_keys_far_from_queries(rng: np.random.Generator):
    """Two groups of keys, as far from each other as from the queries."""
    L = FAR["float64"]
    x, y = rng.normal(size=(4, 2)), groups(rng, "float64")
    x[:, 1] += 2 * L
    y[:, 1] *= np.spacing(L)  # scores are products with distances of the size of L
    y[:10, 0] += 3
    score = SquaredDistance(jnp.eye(2), jnp.eye(2))
    means = lambda x, mu: mu.tilted_mean(score, Tokens(x))
    actual = np.asarray(jax.jit(means)(jnp.asarray(x), Points.uniform(y)))
    exact = np.longdouble
    difference = y.astype(exact)[None] - y.astype(exact)[:1]
    middle = x.astype(exact)[:, None] - y.astype(exact)[None] / 2 - y[:1] / 2
    expected = softmax((2 * difference * middle).sum(-1).astype(float)) @ y
    assert np.abs(actual - expected)[:, 0].max() <= 4 * np.spacing(L)


@pytest.mark.parametrize("link", [jnp.exp, jax.nn.sigmoid])
@pytest.mark.parametrize("reduction", [Dense(), Blocked(7)])
def test_sums_of_links_of_squared_distances(
    link: Callable, reduction: AbstractReduction, rng: np.random.Generator
):
    x = groups(rng, "float64")
    mu = Points.uniform(x, reduction=reduction)
    score = SquaredDistance(jnp.eye(2), jnp.eye(2), 2.0)
    ones = jnp.ones((len(x), 1))
    actual = jax.jit(lambda mu: mu.integral(link, score, mu.tokens, ones))(mu)
    expected = np.asarray(link(-squares(x, x) / 2)).mean(axis=1)
    assert np.abs(actual[:, 0] - expected).max() <= EXACT["float64"]


def test_energy_of_the_kernel_of_a_distance(rng: np.random.Generator):
    x = groups(rng, "float64")
    energy = Interaction(SquaredDistance(jnp.eye(2), jnp.eye(2)))
    expected = np.exp(-squares(x, x)).mean() / 2
    actual = jax.jit(lambda mu: energy(mu))(Points.uniform(x))
    assert abs(float(actual) - expected) <= EXACT["float64"]


def test_derivatives_in_both_modes(rng: np.random.Generator):
    """Derivatives of velocities along a motion of all tokens, by the quotient rule."""
    x, u, b = groups(rng, "float64"), *rng.normal(size=(2, 20, 2))
    b[:, 0] = 0  # along the line a mean is of the size of L
    identity = jnp.eye(2)

    def total(x: jax.Array) -> jax.Array:
        mu = Points.uniform(x, reduction=Blocked(7))
        field = attentions["l2"](identity, identity, identity).field(0.0, mu)
        return jnp.sum(b * field(mu.tokens))

    w = softmax(-squares(x, x))
    slope = -2 * ((x[:, None] - x[None]) * (u[:, None] - u[None])).sum(-1)
    slope = w * (slope - (w * slope).sum(axis=1, keepdims=True))
    expected = (b * (slope @ x + w @ u)).sum()
    forward = jax.jit(lambda x: jax.jvp(total, (x,), (u,))[1])(x)
    reverse = (jax.jit(jax.grad(total))(x) * u).sum()
    # Linear in L, as the means of tokens are.
    tolerance = 100 * np.spacing(FAR["float64"])
    assert abs(forward - expected) <= tolerance
    assert abs(reverse - expected) <= tolerance


def test_rounded_potentials_are_reported(rng: np.random.Generator):
    """With a rotation matrix, scores of all pairs are of the size of L²."""
    solve = jax.jit(
        lambda x, A: scalings(Dot(A, jnp.eye(2)), Points.uniform(x)).convergence
    )
    x, turning = groups(rng, "float64"), jnp.array([[1.0, 0.5], [-0.5, 1.0]])
    far, near = solve(x, turning), solve(x - np.sign(x) * [1e8, 0], turning)
    right = solve(x, 0.7 * jnp.eye(2))
    assert far.residual > 1e3 * far.tolerance
    assert near.residual <= near.tolerance
    assert right.residual <= right.tolerance


def test_costs_of_slices(rng: np.random.Generator):
    """Against sorts along each slice, and differences of matched tokens."""
    x, identity = groups(rng, "float64"), jnp.eye(2)
    angles = np.array([0.0, 0.3, -0.4])
    slices = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    mu = Points.uniform(x)
    along = jnp.asarray(slices)
    mean = HardMean(Dot(identity, identity), mu, along, equal_shares(along), mu, None)
    y = x @ np.diag([1, -1.0])  # keys are the tokens, mirrored
    mean = eqx.tree_at(
        lambda mean: mean.score, mean, Dot(identity, jnp.diag(jnp.array([1, -1.0])))
    )
    matching = [(x[np.argsort(x @ s)], y[np.argsort(y @ s)]) for s in slices]
    expected = np.array([((a - b) ** 2).sum(axis=1).mean() for a, b in matching])
    actual = np.asarray(mean.costs())
    gap = actual - actual[0] - (expected - expected[0])
    assert np.abs(gap).max() <= 1e3 * np.spacing(FAR["float64"])


def transport(x: np.ndarray, y: np.ndarray) -> float:
    """The entropic cost of ½|x - y|², by alternation."""
    s, logs = -squares(x, y) / 2, -np.log(len(x))
    f, g = np.zeros((2, len(x)))
    for _ in range(2000):
        f = -np.asarray(logsumexp(s + g[None] + logs, axis=1))
        g = -np.asarray(logsumexp(s + f[:, None] + logs, axis=0))
    return float(f.mean() + g.mean())


@pytest.mark.slow
def test_divergence_of_groups(rng: np.random.Generator):
    x = groups(rng, "float64")
    y = x + 0.3 * rng.normal(size=x.shape)
    expected = transport(x, y) - transport(x, x) / 2 - transport(y, y) / 2
    actual = SinkhornDivergence(Points.uniform(y), 1.0)(Points.uniform(x))
    assert abs(float(actual) - expected) <= np.spacing(FAR["float64"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_shift_within_a_group(dtype: str, rng: np.random.Generator):
    """A flow ends where the group alone, at the origin, would end."""
    x = groups(rng, dtype)
    identity = jnp.eye(2, dtype=dtype)
    shift = Sum(attentions["l2"](identity, identity, identity), Drift(-identity))
    # Each step rounds places along the line, and so distances within a group.
    tolerance = max(1e-3, 4 * float(np.spacing(np.dtype(dtype).type(FAR[dtype]))))
    run = lambda x: flow(shift, Points.uniform(x), np.array([0, 2], dtype))
    far = np.asarray(run(x).final.tokens.x, float)
    for group in (slice(None, 10), slice(10, None)):
        near = x[group].astype(float) - x[group].astype(float).mean(axis=0)
        group_alone = np.asarray(run(near.astype(dtype)).final.tokens.x, float)
        gap = (
            far[group]
            - far[group].mean(axis=0)
            - group_alone
            + group_alone.mean(axis=0)
        )
        assert np.abs(gap[:, 1]).max() <= tolerance


@pytest.mark.parametrize("how", [Dense(), Blocked(3)], ids=str)
@pytest.mark.parametrize("d", [2, 6])
def test_matrices_may_be_wider_than_tokens(how: AbstractReduction, d: int) -> None:
    rng = np.random.default_rng(d)
    Q, K, V = rng.normal(size=(3, d, d))
    X = rng.normal(size=(5, d)).astype(np.float32)
    wide = attentions["softmax"](jnp.asarray(Q), jnp.asarray(K, np.float32), V)
    mu = Points.uniform(jnp.asarray(X), reduction=how)
    scores = (X @ Q.T) @ K.astype(np.float32) @ X.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ X @ V.T
    np.testing.assert_allclose(wide.field(0.0, mu)(mu.tokens), expected, rtol=1e-4)
