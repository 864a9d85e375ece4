"""Causal sums in cells: keys at a query's position and before."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from numpy.random import Generator

from meanfield import Blocked, Points, Prefix, attentions, flow
from meanfield.flows import interpolations, plan_sums
from meanfield.measures import Cells, CheckedCells, GaussLayout, Layout
from meanfield.measures.reductions import Keys
from meanfield.measures.reductions.cells import (
    AbstractLayout,
    cheapest_gauss_layout,
    cheapest_layout,
    extent,
)
from meanfield.measures.reductions.cells._earlier_sums import (
    block_size,
    seconds_in_order,
)
from meanfield.scores import Dot, Masked, causal
from meanfield.tokens import Tokens

BOUND = 1e-6


CELLS = "meanfield.measures.reductions.cells"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets blocks to 64 tokens, and products to 64 × 32."""
    monkeypatch.setattr(f"{CELLS}._earlier_sums.QUERY_BLOCK", 64)
    monkeypatch.setattr(f"{CELLS}._earlier_sums.KEY_BLOCK", 32)
    monkeypatch.setattr(f"{CELLS}._earlier_sums.block_size", lambda *_: 64)


def plan_layout(
    kind: type[AbstractLayout], q: np.ndarray, k: np.ndarray
) -> AbstractLayout:
    actual = extent(jnp.asarray(q), jnp.asarray(k), jnp.zeros(len(k)))
    d, near = q.shape[1], actual.nearness
    if kind is Layout:
        spans = [1.1 * float(span) for span in actual.spans]
        layout = cheapest_layout(spans, 1000, d + 1, error=BOUND)
    else:
        near = near._replace(halves=1.1 * near.halves, wide_ratio=50 * near.wide_ratio)
        layout = cheapest_gauss_layout(near, 1000, d + 1, error=BOUND)
    assert layout is not None
    return layout


def causal_sums(
    how: Cells | Blocked, q: Tokens, k: Tokens, w: Array
) -> tuple[Array, Array]:
    d = q.x.shape[1]
    score = Masked(Dot(jnp.eye(d), jnp.eye(d)), causal)
    return how.log_mean(score, q, Keys(k, w, k.x))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", [Layout, GaussLayout])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("ties", [False, True])
def test_means_over_earlier_keys(
    kind: type[AbstractLayout], d: int, ties: bool, rng: Generator
) -> None:
    """Against NumPy: queries that are no keys, unequal weights, equal positions."""
    q, k = rng.normal(size=(230, d)), rng.normal(size=(400, d))
    at, of = rng.uniform(0.02, 1, 230), rng.uniform(size=400)
    if ties:
        at, of = np.ceil(8 * at) / 8, np.ceil(8 * of) / 8
    of[:3] = 0.0
    w = rng.normal(size=400)
    layout = plan_layout(kind, q, k)
    queries, keys = [Tokens(*map(jnp.asarray, side)) for side in ((q, at), (k, of))]
    logs_of = jnp.asarray(w)
    checked_cells = CheckedCells(layout=layout)
    means, logs = jax.jit(lambda q, k: causal_sums(checked_cells, q, k, logs_of))(
        queries, keys
    )
    terms = np.where(of[None] <= at[:, None], np.exp(q @ k.T + w), 0)
    mass = terms.sum(axis=1)
    spread = np.abs(k).max()
    assert np.abs(logs - np.log(mass)).max() <= layout.bound
    assert np.abs(means - terms @ k / mass[:, None]).max() <= layout.bound * spread
    exact = causal_sums(Blocked(), queries, keys, logs_of)
    assert np.abs(means - exact[0]).max() > 1e-14  # not all is summed pair by pair


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", [Layout, GaussLayout])
def test_queries_that_see_no_key_have_zero_sums(
    kind: type[AbstractLayout], rng: Generator
) -> None:
    """The first tokens have no weight, but are in cells."""
    x, w = rng.normal(size=(300, 1)), np.zeros(300)
    w[:4] = -np.inf
    tokens = Tokens(jnp.asarray(x), jnp.arange(300) / 300)
    cells, logs_of = CheckedCells(layout=plan_layout(kind, x, x)), jnp.asarray(w)
    ours = jax.jit(lambda tokens: causal_sums(cells, tokens, tokens, logs_of))(tokens)
    exact = causal_sums(Blocked(), tokens, tokens, logs_of)
    assert np.all(np.isneginf(ours[1][:4]))
    for actual, reference in zip(ours, exact, strict=True):
        np.testing.assert_allclose(actual, reference, rtol=0, atol=1e-5)


@pytest.mark.slow_cases("Layout")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", [Layout, GaussLayout])
def test_derivatives_in_both_modes(kind: type[AbstractLayout], rng: Generator) -> None:
    x, w = rng.normal(size=(300, 2)), jnp.zeros(300)
    place = jnp.asarray(np.ceil(40 * rng.uniform(size=300)) / 40)
    up, change = jnp.asarray(rng.normal(size=(2, 300, 2)))
    cells = CheckedCells(layout=plan_layout(kind, x, x))

    def means(how: Cells | Blocked, x: Array) -> Array:
        tokens = Tokens(x, place)
        return causal_sums(how, tokens, tokens, w)[0]

    def derivatives(how: Cells | Blocked) -> tuple[Array, Array]:
        forward = jax.jvp(lambda x: means(how, x), (jnp.asarray(x),), (change,))[1]
        return forward, jax.grad(lambda x: jnp.sum(up * means(how, x)))(jnp.asarray(x))

    for ours, exact in zip(
        jax.jit(lambda: derivatives(cells))(), derivatives(Blocked()), strict=True
    ):
        assert jnp.abs(ours - exact).max() < 1e-5 * jnp.abs(exact).max()


@pytest.mark.slow
def test_a_flow_with_a_causal_mask_is_planned_in_cells(rng: Generator) -> None:
    identity = np.eye(1)
    softmax = attentions["softmax"](-identity, identity, identity)
    masked = dataclasses.replace(softmax, score=Masked(softmax.score, causal))
    place = rng.uniform(size=20_000)
    mu = Points.uniform(rng.normal(size=(20_000, 1)), position=place, reduction=Cells())
    ready = plan_sums(masked, mu, 0.0)
    assert isinstance(ready, Points)
    assert isinstance(ready.reduction, CheckedCells)
    sample = jax.tree.map(lambda leaf: leaf[::100], mu.tokens)
    exact = masked.field(0.0, mu.replace_reduction(Blocked()))(sample)
    ours = jax.jit(lambda mu: masked.field(0.0, mu)(mu.tokens))(ready)[::100]
    assert jnp.abs(ours - exact).max() < 1e-6 * jnp.abs(exact).max()
    run = flow(masked, mu, [0.0, 0.05])
    assert 0 < run.sum_error < 1e-6


def test_fields_of_single_tokens_are_not_planned_in_cells() -> None:
    """A general mask evaluates one field per token."""
    identity, x = jnp.eye(1), jnp.zeros((100_000, 1))
    mu = Points.uniform(x, position=jnp.zeros(100_000), reduction=Cells())
    prefix = Prefix(attentions["sinkhorn"](identity, identity, identity))
    assert interpolations(prefix, mu, 0.0) == ()


def test_block_length_minimises_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half and twice the block length cost more, by the same estimate."""
    layout, n = Layout(nodes=6, cells=(30, 30), reach=1.0), 1_000_000
    best, size = seconds_in_order(layout, n, 3), block_size(layout, n, 3)
    for factor in (0.5, 2.0):
        other_size = int(factor * size)
        monkeypatch.setattr(
            f"{CELLS}._earlier_sums.block_size", lambda *_, b=other_size: b
        )
        assert seconds_in_order(layout, n, 3) > best


@pytest.mark.usefixtures("small_blocks")
def test_concrete_positions_are_sorted_at_run_time(rng: Generator) -> None:
    """Not by XLA during compilation, which takes minutes for a million."""
    x, w = jnp.asarray(rng.normal(size=(300, 1))), jnp.zeros(300)
    at = jnp.asarray(rng.uniform(size=300))
    how = Cells(layout=plan_layout(GaussLayout, np.asarray(x), np.asarray(x)))
    means = lambda x, at: causal_sums(how, Tokens(x, at), Tokens(x, at), w)[0]
    sorts = [
        str(jax.jit(compute).lower(*arrays).compile().as_text()).count(" sort(")
        for compute, arrays in ((means, (x, at)), (lambda x: means(x, at), (x,)))
    ]
    assert sorts[0] == sorts[1] > 0
