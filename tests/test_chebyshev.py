"""Interpolated sums: values, errors, and error control."""

import re
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import every_variant
from interpolation_problems import KINDS, hard_cloud
from scipy.spatial.distance import cdist

from meanfield import attentions, runs
from meanfield.attention import Attention
from meanfield.dynamics import Heads, stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows import flow, plan_sums
from meanfield.measures import (
    Blocked,
    Chebyshev,
    Dense,
    Points,
    use_exact_sums,
    worst_tokens,
)
from meanfield.scores import Dot, SquaredDistance
from meanfield.spec import parse

TOLERANCE = 1e-6


def brute(
    S: np.ndarray, logs: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Means and logarithms of sums of $e^{S + logs}$, in NumPy."""
    S = S + logs[None]
    top = S.max(axis=1, keepdims=True)
    P = np.exp(S - top)
    mass = P.sum(axis=1)
    return P @ values / mass[:, None], top[:, 0] + np.log(mass)


@pytest.mark.parametrize(
    ("kind", "d"),
    [
        *(("dot", 1), ("dot", 2), ("distance", 2)),
        pytest.param("dot", 3, marks=pytest.mark.slow),
        pytest.param("distance", 1, marks=pytest.mark.slow),
        pytest.param("distance", 3, marks=pytest.mark.slow),
    ],
)
def test_interpolated_sums_match_numpy(kind: str, d: int, rng: np.random.Generator):
    """With weights, excluded tokens, biases and potentials, to rounding."""
    n, counts = 40_000 // 2 ** (3 - d), (40, 32, 30)[:d]
    x, w = rng.uniform(-1, 1, (n, d)), rng.uniform(size=n)
    w[::7] = 0
    Q, K = rng.normal(size=(2, d, d)) / d
    score = Dot(Q, K, query_bias=np.ones(d)) if kind == "dot" else SquaredDistance(Q, K)
    mu = Points.weighted(x, w, reduction=Chebyshev(counts=counts))
    g = jnp.asarray(np.sin(3 * x[:, 0]))
    means = eqx.filter_jit(mu.tilted_mean)(score, mu.tokens, g)
    logs = eqx.filter_jit(mu.log_integral)(score, mu.tokens, g)
    sample = slice(0, None, n // 50)
    S = np.asarray(score(Points.uniform(x[sample]).tokens, mu.tokens))
    with np.errstate(divide="ignore"):
        exact = brute(S, np.log(w / w.sum()) + np.asarray(g), x)
    np.testing.assert_allclose(np.asarray(means)[sample], exact[0], atol=1e-11)
    np.testing.assert_allclose(np.asarray(logs)[sample], exact[1], atol=1e-11)


def test_queries_in_a_plane_need_fewer_axes(rng: np.random.Generator):
    """Keys fill space, queries a plane off the origin: two axes are enough."""
    n = 3000
    x = rng.uniform(-1, 1, (n, 3))
    Q = np.outer([0.6, 0.0, 0.8], [1.0, 0, 0]) + np.outer([0, 1.0, 0], [0, 1.0, 0])
    score = Dot(Q, np.eye(3), query_bias=[0.5, -0.3, 0.7])
    mu = Points.uniform(x, reduction=Chebyshev(counts=(24, 24)))
    means = np.asarray(mu.tilted_mean(score, mu.tokens))
    exact = brute(np.asarray(score(mu.tokens, mu.tokens)), np.zeros(n), x)[0]
    np.testing.assert_allclose(means, exact, atol=1e-12)


def cloud(kind: str, d: int, rng: np.random.Generator) -> np.ndarray:
    n = 20_000
    if kind == "clusters":
        centres = rng.normal(size=(6, d))
        return centres[rng.integers(0, 6, n)] + 0.1 * rng.normal(size=(n, d))
    if kind == "heavy-tailed":
        return 0.5 * rng.standard_t(6, (n, d))
    if kind == "far":
        return 0.5 * rng.normal(size=(n, d)) + 100
    return rng.normal(size=(n, d))


def velocities(attention: Attention | Heads, mu: Points) -> np.ndarray:
    """The field at the tokens, compiled."""
    field = eqx.filter_jit(lambda moves, mu: moves.field(0.0, mu)(mu.tokens))
    return np.asarray(field(attention, mu))


@pytest.mark.slow_cases("clusters-l2-2")
@pytest.mark.parametrize(
    ("kind", "name", "d"),
    [
        ("clusters", "l2", 2),
        pytest.param("heavy-tailed", "softmax", 1, marks=pytest.mark.slow),
        pytest.param("normal", "softmax", 2, marks=pytest.mark.slow),
        pytest.param("far", "l2", 2, marks=pytest.mark.slow),
        pytest.param("normal", "sinkhorn", 2, marks=pytest.mark.slow),
    ],
)
def test_a_plan_holds_the_tolerance(
    kind: str, name: str, d: int, rng: np.random.Generator
):
    """At all tokens, also those of weight zero, against exact sums."""
    x, w = cloud(kind, d, rng), rng.uniform(size=20_000)
    w[:5] = 0
    A = rng.normal(size=(d, d))
    attention = attentions[name](A / np.linalg.norm(A, 2), np.eye(d), np.eye(d))
    mu = Points.weighted(x, w, reduction=Chebyshev(TOLERANCE))
    plan = plan_sums(attention, mu, 0.0)
    assert isinstance(plan, Points)
    assert isinstance(plan.reduction, Chebyshev)
    exact = velocities(attention, use_exact_sums(plan))
    error = np.max(np.abs(velocities(attention, plan) - exact))
    assert error <= TOLERANCE * np.max(np.abs(exact))


@pytest.mark.slow_cases("sinkhorn")
@every_variant
def test_every_attention_keeps_its_velocity_under_interpolation(
    name: str, rng: np.random.Generator
):
    """Interpolated or exact, with one tolerance for all."""
    n = 500
    x, w = rng.uniform(-1, 1, (n, 2)), rng.uniform(size=n)
    w[3] = 0
    attention = attentions[name](*rng.normal(size=(3, 2, 2)) / 2)
    dense = Points.weighted(x, w, reduction=Dense())
    nodes = Points.weighted(x, w, reduction=Chebyshev(1e-12, counts=(22, 22)))
    exact = velocities(attention, dense)
    error = np.max(np.abs(velocities(attention, nodes) - exact))
    assert error <= 1e-9 * np.max(np.abs(exact))


def test_sums_are_exact_where_interpolation_costs_more(rng: np.random.Generator):
    small = Points.uniform(rng.normal(size=(100, 2)), reduction=Chebyshev(TOLERANCE))
    sharp = Points.uniform(
        20 * rng.normal(size=(1000, 2)), reduction=Chebyshev(TOLERANCE)
    )
    high_dimensional = Points.uniform(
        rng.normal(size=(1000, 4)), reduction=Chebyshev(TOLERANCE)
    )
    for mu, name in (
        (small, "softmax"),
        (sharp, "softmax"),
        (high_dimensional, "softmax"),
    ):
        d = mu.tokens.x.shape[1]
        attention = attentions[name](np.eye(d), np.eye(d), np.eye(d))
        plan = plan_sums(attention, mu, 0.0)
        assert isinstance(plan, Points)
        assert isinstance(plan.reduction, Blocked)


def two_clusters(at: float, width: float, n: int, seed: int) -> np.ndarray:
    """Clusters at `at` on either side of zero, and 20 tokens between them."""
    rng = np.random.default_rng(seed)
    left, right = (n - 20) // 2, n - 20 - (n - 20) // 2
    clusters = rng.normal(-at, width, left), rng.normal(at, width, right)
    return np.concatenate([*clusters, rng.uniform(-1, 1, 20)])[:, None]


def softmax_means(A: float, x: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return brute(A * queries @ x.T, np.zeros(len(x)), x)[0]


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_tokens_between_clusters_hold_the_tolerance_in_any_order(order: int):
    """Nodes that resolve the clusters to 2e-5 miss the 20 tokens by 2.7e-4."""
    x = two_clusters(4, 0.05, 20_001, 6)
    x = x[np.random.default_rng(order).permutation(len(x))]
    attention = attentions["softmax"]([[4.0]], np.eye(1), np.eye(1))
    mu = Points.uniform(x, reduction=Chebyshev(2e-5))
    plan = plan_sums(attention, mu, 0.0)
    assert isinstance(plan, Points)
    probes = np.concatenate([np.flatnonzero(np.abs(x[:, 0]) < 1), np.arange(100)])
    error = velocities(attention, plan)[probes] - softmax_means(4, x, x[probes])
    assert np.max(np.abs(error)) <= 2e-5 * np.max(np.abs(x))


@pytest.mark.slow
def test_separating_clusters_keep_the_tolerance_between_them():
    """At every frame of a flow that starts with few nodes."""
    x = two_clusters(2, 0.02, 4001, 0)[np.random.default_rng(1).permutation(4001)]
    attention = attentions["softmax"]([[4.0]], np.eye(1), np.eye(1))
    mu = Points.uniform(x, reduction=Chebyshev(1e-4))
    trajectory = flow(attention, mu, [0.0, 0.2])
    assert trajectory.status == Status.FINISHED
    for index in range(2):
        now = trajectory.frame(index)
        y = np.asarray(now.coordinates)
        exact = softmax_means(4, y, y)
        error = np.max(np.abs(velocities(attention, now) - exact))
        assert error <= 1e-4 * np.max(np.abs(exact))


def check_tolerance(kind: str, name: str, seed: int, n: int, d: int) -> bool:
    """Asserts the tolerance of a random problem; whether it was interpolated."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    x = rng.permutation(hard_cloud(kind, n, d, rng))
    A = rng.normal(size=(d, d))
    A *= 10 ** rng.uniform(-1, 1) / np.linalg.norm(A, 2)
    attention = attentions[name](A, np.eye(d), np.eye(d))
    mu = Points.uniform(x, reduction=Chebyshev(1e-5))
    plan = plan_sums(attention, mu, 0.0)
    assert isinstance(plan, Points)
    S = x @ A.T @ x.T if name == "softmax" else -cdist(x @ A.T, x, "sqeuclidean")
    exact = brute(S, np.zeros(n), x)[0]
    error = np.max(np.abs(velocities(attention, plan) - exact))
    assert error <= 1e-5 * np.max(np.abs(exact))
    return isinstance(plan.reduction, Chebyshev)


@pytest.mark.slow
def test_random_plans_hold_their_tolerance():
    """At all tokens, against NumPy; most problems are interpolated."""
    is_interpolated = [
        check_tolerance(kind, "softmax", s, 1200, 1) for kind in KINDS for s in (0, 1)
    ]
    assert sum(is_interpolated) >= 7


@pytest.mark.slow
@pytest.mark.parametrize(("name", "d"), [("softmax", 1), ("softmax", 2), ("l2", 1)])
def test_many_plans_hold_their_tolerance(name: str, d: int):
    seeds = range(2, 12)
    is_interpolated = [
        check_tolerance(kind, name, s, 3000, d) for kind in KINDS for s in seeds
    ]
    assert sum(is_interpolated) >= 20


@pytest.mark.slow
def test_user_chosen_nodes_are_checked_against_the_tolerance(rng: np.random.Generator):
    """Too few nodes are increased, or replaced by exact sums."""
    x = 3 * rng.uniform(-1, 1, (1500, 1))
    attention = attentions["softmax"]([[2.0]], np.eye(1), -np.eye(1))
    mu = Points.uniform(x, reduction=Chebyshev(1e-6, counts=(64,)))
    start = flow(attention, mu, [0.0, 0.1]).start
    exact = -softmax_means(2, x, x)
    error = np.max(np.abs(velocities(attention, start) - exact))
    assert error <= 1e-6 * np.max(np.abs(exact))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_isolated_tokens_are_probed_in_any_order(d: int, rng: np.random.Generator):
    """However small its gap is compared with the largest one."""
    x = rng.choice([-1.0, 1.0], (5000, 1)) + 0.01 * rng.normal(size=(5000, d))
    x[:2] = [[0.0] * d, [0.4] + [0.0] * (d - 1)]
    gaps = rng.uniform(1, 2, 5000)
    gaps[:2] = 0
    for order in (np.arange(5000), rng.permutation(5000)):
        probe_ids = worst_tokens(jnp.asarray(x[order]), jnp.asarray(gaps[order]))
        assert {0, 1, np.argmax(gaps)} <= set(order[np.asarray(probe_ids)])


def test_sums_of_links_are_not_interpolated(rng: np.random.Generator):
    mu = Points.uniform(rng.normal(size=(1000, 2)), reduction=Chebyshev(TOLERANCE))
    sigmoid = attentions["sigmoid"](np.eye(2), np.eye(2), np.eye(2))
    plan = plan_sums(sigmoid, mu, 0.0)
    assert isinstance(plan, Points)
    assert isinstance(plan.reduction, Blocked)


@pytest.mark.slow
def test_a_flow_that_outgrows_its_nodes_is_replanned(rng: np.random.Generator):
    """Tokens that spread need more nodes than at the start; exact sums agree."""
    x = rng.uniform(-1, 1, (1500, 1))
    attention = attentions["softmax"](np.eye(1), np.eye(1), np.eye(1))
    ts = np.array([0.0, 1.0, 2.0])
    mu = Points.uniform(x, reduction=Chebyshev(1e-8))
    start = plan_sums(attention, mu, 0.0)
    assert isinstance(start, Points)
    trajectory = flow(attention, mu, ts)
    exact = flow(attention, use_exact_sums(mu), ts)
    assert trajectory.status == Status.FINISHED
    how = trajectory.start.reduction
    assert isinstance(how, Chebyshev)
    assert isinstance(start.reduction, Chebyshev)
    assert how.counts is not None
    assert start.reduction.counts is not None
    assert how.counts > start.reduction.counts
    scale = np.max(np.abs(np.asarray(exact.last)))
    difference = np.max(np.abs(np.asarray(trajectory.last - exact.last)))
    # Errors of positions grow at most like e^{|V|t}(1 + |A| R² t) with R = e² here.
    assert difference <= 1e-8 * np.exp(2) * (1 + 2 * np.exp(4)) * scale


def test_heads_share_their_nodes(rng: np.random.Generator):
    single_heads = [
        attentions["softmax"](rng.normal(size=(2, 2)), np.eye(2), np.eye(2) * s)
        for s in (1, -0.5)
    ]
    heads = Heads(stack_trees(single_heads))
    mu = Points.uniform(
        0.5 * rng.normal(size=(3000, 2)), reduction=Chebyshev(TOLERANCE)
    )
    plan = plan_sums(heads, mu, 0.0)
    assert isinstance(plan, Points)
    assert isinstance(plan.reduction, Chebyshev)
    exact = velocities(heads, use_exact_sums(plan))
    error = np.max(np.abs(velocities(heads, plan) - exact))
    assert error <= TOLERANCE * np.max(np.abs(exact))


SPEC = {"n": 1200, "d": 1, "A": -1.0, "t": 1.0, "frames": 5, "segment": 2}


@pytest.mark.slow
def test_a_run_with_nodes_matches_the_run_with_exact_sums(tmp_path: Path):
    """An interrupted run resumes to the same bytes."""
    spec = parse({**SPEC, "reduction": "chebyshev:1e-8"})
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    runs.execute(spec, out=whole)

    def interrupt(progress: runs.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=cut, report=interrupt)
    runs.resume(cut)
    x = runs.dataset(whole)["x"].values
    assert runs.dataset(cut)["x"].values.tobytes() == x.tobytes()
    exact = runs.execute(parse({**SPEC, "reduction": "blocked"}))
    final = exact.measures[0].coordinates
    np.testing.assert_allclose(x[-1], np.asarray(final), atol=1e-7)


@pytest.mark.parametrize(
    "text", ["chebyshev:0", "cells:2", "chebyshev:x", "blocked:1.5", "nodes"]
)
def test_reductions_are_rejected_by_name(text: str):
    with pytest.raises(InvalidInputError, match="chebyshev:TOLERANCE"):
        runs.execute(parse({**SPEC, "reduction": text}))


@pytest.mark.slow_cases("chebyshev-chebyshev, .*")
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("auto", "blocked"),  # few tokens
        pytest.param("dense", "dense", marks=pytest.mark.slow),
        pytest.param("blocked:64", "blocked:64", marks=pytest.mark.slow),
        ("chebyshev", "chebyshev, .*"),
    ],
)
def test_the_result_names_its_reduction(reduction: str, expected: str):
    sums = runs.execute(parse({**SPEC, "t": 0.1, "reduction": reduction})).sums
    assert re.fullmatch(expected, sums)
