"""Differential attention: its second map, its heads, its normalisation."""

import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import velocities
from helpers import assert_close, gaussian
from numpy.random import Generator
from reference import Parameters, softmax

from meanfield.attention import Attention, attentions
from meanfield.dynamics import Prefix, Projected
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import Affine
from meanfield.flows import flow
from meanfield.measures import Gaussian, Points
from meanfield.runs import member
from meanfield.scores import Masked, causal
from meanfield.spec import parse
from meanfield.tokens import Tokens

MAKE = attentions["differential"]


def weights(Q: np.ndarray, K: np.ndarray, x: np.ndarray, epsilon: float) -> np.ndarray:
    """Rows of a softmax of tokens of equal weight; they sum to one."""
    n = len(x)
    return softmax(Parameters(Q, K, K, epsilon), x, x, np.full(n, 1 / n)) / n


def test_the_velocity_matches_two_softmaxes(rng: Generator):
    x = rng.normal(size=(12, 3))
    Q, K, Q2, K2, V = rng.normal(size=(5, 3, 3))
    mu = Points.uniform(x)
    attention = MAKE(Q, K, V, epsilon=2.0, lambda_=0.3, Q2=Q2, K2=K2, lambda0=0.2)
    kappa = weights(Q, K, x, 2.0) - 0.3 * weights(Q2, K2, x, 2.0)
    v = np.asarray(velocities(attention, mu, mu.tokens))
    np.testing.assert_allclose(v, 0.8 * kappa @ x @ V.T, rtol=1e-12)
    np.testing.assert_allclose(kappa.sum(axis=1), 0.7)
    scaled = MAKE(Q, K, V, Q2=0.5, K2=K2)
    single_map = MAKE(Q, K, V, Q2=0.5 * np.eye(3), K2=K2)
    np.testing.assert_array_equal(
        velocities(scaled, mu, mu.tokens), velocities(single_map, mu, mu.tokens)
    )


def test_a_mask_hides_the_future_from_both_maps(rng: Generator):
    x, s = rng.normal(size=(7, 2)), np.linspace(0, 1, 7)
    Q, K, Q2, K2, V = rng.normal(size=(5, 2, 2))
    mu, attention = Points.uniform(x, position=s), MAKE(Q, K, V, Q2=Q2, K2=K2)
    masked = Attention(Masked(attention.score, causal), attention.coupling, V)
    actual = velocities(masked, mu, mu.tokens)
    assert_close(actual, Prefix(attention).field(0.0, mu)(mu.tokens), ulps=1000)


def test_the_closed_form_has_both_maps(rng: Generator):
    """Gauss–Hermite sums of both softmaxes, 24 nodes an axis; scores are small."""
    Q, K, Q2, K2, V = 0.4 * rng.normal(size=(5, 2, 2))
    mean, factor = np.array([0.5, -1.0]), rng.normal(size=(2, 2)) / 2
    line, masses = np.polynomial.hermite_e.hermegauss(24)
    z = np.stack(np.meshgrid(line, line), axis=2).reshape(-1, 2)
    w = np.outer(masses, masses).ravel() / masses.sum() ** 2
    y, x = mean + z @ factor.T, mean + rng.normal(size=(5, 2)) @ factor.T
    first, second = (softmax(Parameters(*p, V), x, y, w) for p in ((Q, K), (Q2, K2)))
    expected = ((first - 0.3 * second) * w) @ y @ V.T
    attention = MAKE(Q, K, V, lambda_=0.3, Q2=Q2, K2=K2)
    field = attention.field(0.0, Gaussian.from_moments(mean, factor @ factor.T))
    assert isinstance(field, Affine)
    at = Tokens(jnp.asarray(x))
    np.testing.assert_allclose(field(at), expected, rtol=0, atol=1e-10)


def test_heads_have_their_own_second_maps(rng: Generator):
    """Four rows of each matrix are two heads of two rows, of values too."""
    Q, K, Q2, K2, V = rng.normal(size=(5, 4, 4))
    spec = {
        "attention": "differential", "heads": 2, "n": 9, "d": 4, "scale": "sqrt-k",
        "Q": Q.tolist(), "K": K.tolist(), "V": V.tolist(),
        "options": {"Q2": Q2.tolist(), "K2": K2.tolist(), "lambda": 0.4},
    }  # fmt: skip
    setup = member(parse(spec))
    assert isinstance(setup.measure, Points)
    x = np.asarray(setup.measure.tokens.x)
    expected = np.zeros_like(x)
    for rows in (slice(0, 2), slice(2, 4)):
        kappa = weights(Q[rows], K[rows], x, np.sqrt(2))
        kappa = kappa - 0.4 * weights(Q2[rows], K2[rows], x, np.sqrt(2))
        expected[:, rows] = kappa @ x @ V[rows].T
    actual = setup.dynamics.field(0.0, setup.measure)(setup.measure.tokens)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_normalised_heads_have_a_root_mean_square(rng: Generator):
    Q, K, V = rng.normal(size=(3, 6, 6))
    V[2:] = 0  # a head of two coordinates
    mu = Points.uniform(rng.normal(size=(20, 6)))
    plain = np.asarray(velocities(MAKE(Q, K, V), mu, mu.tokens))[:, :2]
    actual = MAKE(Q, K, V, normalised=True, lambda0=0.2)
    v = np.asarray(velocities(actual, mu, mu.tokens))
    rms = np.sqrt(np.mean(plain**2, axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(v[:, :2], 0.8 * plain / rms, rtol=1e-12)
    np.testing.assert_array_equal(v[:, 2:], 0)


def test_a_normalised_head_without_values_stands_still(rng: Generator):
    Q, K = rng.normal(size=(2, 2, 2))
    mu = Points.uniform(rng.normal(size=(5, 2)))
    attention = MAKE(Q, K, np.zeros((2, 2)), normalised=True)
    np.testing.assert_array_equal(velocities(attention, mu, mu.tokens), 0)


def test_normalised_heads_keep_no_gaussian(rng: Generator):
    Q, K, V = rng.normal(size=(3, 2, 2))
    mu, attention = gaussian(rng, 2), MAKE(Q, K, V, normalised=True)
    with pytest.raises(UnsupportedError, match="only under an affine field"):
        flow(attention, mu, [0.0, 0.1])
    end = flow(Projected(attention), mu, [0.0, 0.1]).final
    assert jnp.all(jnp.isfinite(end.factor))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Q2": [[1.0, 0.0, 0.0]]}, "must have 2 columns, like `Q` and `K`; got 3"),
        ({"Q2": "normal"}, "`Q2`"),
        ({"normalised": "no"}, "`normalised` must be true or false; got `no`"),
        ({"lambda": True}, "`lambda` must not be true or false"),
    ],
)
def test_options_that_do_not_fit_are_rejected(options: dict, message: str):
    """A word is no truth value: `no` would count as true."""
    spec = parse({"attention": "differential", "d": 2, "n": 2, "options": options})
    with pytest.raises(InvalidInputError, match=message):
        member(spec)
