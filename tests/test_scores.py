"""Scores: entrywise definitions, and their quadratic forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close, case
from reference import Parameters, dot, score_matrix, squared_distance

from meanfield.dynamics import Window, causal
from meanfield.errors import InvalidInputError
from meanfield.scores import (
    AbstractScore,
    Dot,
    Masked,
    SquaredDistance,
    TransposedScore,
    transpose,
)
from meanfield.scores.centring import balance_score, centre_score, recentre
from meanfield.tokens import Tokens


def pair(rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    places = jnp.linspace(0, 1, 4), jnp.linspace(0, 1, 6)
    return Tokens(jnp.asarray(x), places[0]), Tokens(jnp.asarray(y), places[1])


def quadratic_scores(rng: np.random.Generator) -> dict[str, Dot | SquaredDistance]:
    p = case(rng, k=2).p
    q, k = rng.normal(size=(2, 2))
    return {
        "dot": Dot(p.Q, p.K, 0.7),
        "dot with biases": Dot(p.Q, p.K, 0.7, query_bias=q, key_bias=k),
        "squared distance": SquaredDistance(p.Q, p.K, 0.7),
    }


def test_a_balanced_score_matches_its_definition_and_quadratic_form(
    rng: np.random.Generator,
):
    """For any matrix; its parts sum to a squared distance, also far from the origin."""
    p, origins = case(rng, k=2).p, rng.normal(size=(2, 3)) + 5
    score = balance_score(Dot(p.Q, p.K, 0.7), *map(jnp.asarray, origins[::-1]))
    x, y = pair(rng)
    X, Y = (np.asarray(z.x) for z in (x, y))
    M, N = np.asarray(score.M), np.asarray(score.N)
    assert_close(N.T @ M, p.K.T @ p.Q / 0.7)
    images = (X - origins[0]) @ M.T, (Y - origins[1]) @ N.T
    expected = -((images[0][:, None] - images[1][None]) ** 2).sum(-1) / 2
    assert_close(score(x, y), expected)
    assert_close(transpose(score)(y, x), expected.T)
    bilinear = X @ np.asarray(score.A).T @ Y.T
    by_token = score.query_terms(x.x)[:, None] + score.key_terms(y.x)[None]
    assert_close(bilinear + by_token, expected, scale=float(np.abs(bilinear).max()))
    form = Y @ np.asarray(score.a) - ((Y @ np.asarray(score.B)) * Y).sum(axis=1) / 2
    assert_close(score.key_terms(y.x), form, scale=float(np.abs(form).max()))


KINDS = ["dot", "dot with biases", "squared distance"]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_match_their_definition(kind: str, rng: np.random.Generator):
    score = quadratic_scores(rng)[kind]
    x, y = pair(rng)
    Q, K = np.asarray(score.Q), np.asarray(score.K)
    q = np.asarray(score.query_bias) if isinstance(score, Dot) else None
    k = np.asarray(score.key_bias) if isinstance(score, Dot) else None
    p = Parameters(Q, K, np.eye(3), 0.7, q, k)
    definition = dot if isinstance(score, Dot) else squared_distance
    assert_close(
        score(x, y), score_matrix(definition, p, np.asarray(x.x), np.asarray(y.x))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_scores_match_their_quadratic_form(kind: str, rng: np.random.Generator):
    s = quadratic_scores(rng)[kind]
    x, y = pair(rng)
    X, Y = np.asarray(x.x), np.asarray(y.x)
    form = (
        X @ np.asarray(s.A).T @ Y.T
        + (Y @ np.asarray(s.a))[None, :]
        + (X @ np.asarray(s.c))[:, None]
        - np.einsum("ni,ij,nj->n", Y, s.B, Y)[None, :] / 2
        - np.einsum("mi,ij,mj->m", X, s.C, X)[:, None] / 2
        + float(s.constant)
    )
    assert_close(s(x, y), form)
    assert_close(s.bilinear(x, y), X @ np.asarray(s.A).T @ Y.T)
    assert s.dimension == 3


@pytest.mark.parametrize("kind", KINDS)
def test_one_sided_score_terms_match_the_score_at_zero(
    kind: str, rng: np.random.Generator
):
    score = quadratic_scores(rng)[kind]
    queries, keys = pair(rng)
    nothing = Tokens(jnp.zeros((1, 3)), jnp.zeros(1))
    assert_close(score.query_terms(queries.x), score(queries, nothing)[:, 0])
    assert_close(score.key_terms(keys.x) + score.constant, score(nothing, keys)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_centring_changes_rows_by_constants(kind: str, rng: np.random.Generator):
    s = quadratic_scores(rng)[kind]
    x, y = pair(rng)
    mean = jnp.asarray(rng.normal(size=3))
    change = np.asarray(recentre(s, mean)(x, y) - s(x, y))
    assert_close(change, np.repeat(change[:, :1], 6, axis=1), scale=10)
    differences = np.asarray(centre_score(s, mean)(x, y) - s.bilinear(x, y))
    assert_close(
        differences,
        differences[:, :1] + differences[:1, :] - differences[0, 0],
        scale=10,
    )


def test_far_from_the_origin_the_weights_keep_their_digits(rng: np.random.Generator):
    """At a distance of 1e6 raw scores are 1e12 with rounding errors of 1e-4."""
    x, y = pair(rng)
    far = jnp.full(3, 1e6)
    at = Tokens(x.x + far[None, :]), Tokens(y.x + far[None, :])
    eye = np.eye(3)
    near = np.asarray(SquaredDistance(eye, eye)(x, y))
    actual = np.asarray(recentre(SquaredDistance(eye, eye), far)(*at))
    differences = lambda S: S - S[:, :1]
    # The tokens themselves are rounded at 1e6: 1e-10, times a slope of order ten.
    assert np.max(np.abs(differences(actual) - differences(near))) < 1e-8


def test_masked_pairs_have_minus_infinite_scores(rng: np.random.Generator):
    x, y = pair(rng)
    plain = quadratic_scores(rng)["dot"]
    lag = np.linspace(0, 1, 4)[:, None] - np.linspace(0, 1, 6)[None, :]
    for mask, is_allowed in (
        (causal, lag >= 0),
        (Window(0.3), (lag >= 0) & (lag <= 0.3)),
    ):
        S = np.asarray(Masked(plain, mask)(x, y))
        assert np.all(np.isneginf(S[~is_allowed]))
        assert_close(S[is_allowed], np.asarray(plain(x, y))[is_allowed], ulps=0)


def test_transposed_exchanges_sides(rng: np.random.Generator):
    x, y = pair(rng)
    plain: AbstractScore = quadratic_scores(rng)["dot with biases"]
    assert_close(TransposedScore(plain)(y, x), np.asarray(plain(x, y)).T, ulps=0)


def test_biases_that_do_not_fit_are_rejected():
    with pytest.raises(InvalidInputError, match="query_bias"):
        Dot(np.eye(2), np.eye(2), query_bias=np.ones(3))
