"""Sums in cells of lattices, whose points lie on edges of cells, against NumPy.

Rounding differs between programs, so a point on an edge may be put into either cell;
its sum must be the same.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import Generator

from meanfield import Points, Tokens, attentions, sums
from meanfield.flows import plan_sums
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    CheckedCells,
    Keys,
)
from meanfield.measures.reductions.cells import AbstractLayout, GaussLayout, Layout
from meanfield.scores import Dot, Masked, causal

# Odd and even numbers along the axes: the middle is on an edge, or not.
CELLS = {Layout: (25, 8, 3), GaussLayout: (25, 16, 9)}
ROUNDING = 1e-12
Sums = tuple[Any, Any]  # means and logarithms, of NumPy or of JAX


def layout_of(kind: type[AbstractLayout], d: int) -> AbstractLayout:
    cells = CELLS[kind][:d]
    if kind is Layout:
        return Layout(nodes=7, cells=cells, reach=0.9)
    return GaussLayout(nodes=5, cells=cells, width=0.45, limit=3e-2)


class Lattice(NamedTuple):
    """Queries and keys on edges of cells, one ulp beside them, on corners, repeated."""

    q: np.ndarray
    k: np.ndarray
    logs: np.ndarray

    @classmethod
    def random(cls, layout: AbstractLayout, n: int, rng: Generator) -> "Lattice":
        cells = np.asarray(layout.cells)
        if isinstance(layout, Layout):
            half = np.sqrt(layout.reach * cells) * rng.uniform(0.6, 0.95)
        else:
            assert isinstance(layout, GaussLayout)
            half = np.minimum(0.5 * layout.width * cells, rng.uniform(1.5, 2.5))
        k, q = (points_on_edges(cells, n, rng) * half for _ in range(2))
        weights = rng.uniform(0.1, 1, n) ** rng.integers(0, 3)
        return cls(shift_by_one_ulp(q, rng), shift_by_one_ulp(k, rng), np.log(weights))

    @property
    def terms(self) -> np.ndarray:
        return np.exp(self.q @ self.k.T + self.logs)

    def sums(self, mask: np.ndarray | None = None) -> Sums:
        terms = self.terms if mask is None else np.where(mask, self.terms, 0)
        mass = terms.sum(axis=1)
        return terms @ self.k / mass[:, None], np.log(mass)


def points_on_edges(cells: np.ndarray, n: int, rng: Generator) -> np.ndarray:
    """Points in [-1, 1] on edges of cells or at fractions of them, with all corners."""
    parts = rng.choice([1, 2, 3, 4, 10])
    x = rng.integers(0, parts * cells + 1, (n, len(cells))) / (parts * cells) * 2 - 1
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * len(cells)), axis=-1)
    corners = corners.reshape(-1, len(cells))
    x[: len(corners)] = corners
    x[-n // 8 :] = x[n // 8 : 2 * (n // 8)]  # twice
    return x


def shift_by_one_ulp(x: np.ndarray, rng: Generator) -> np.ndarray:
    """The points, some of them shifted by one ulp."""
    is_shifted = rng.random(x.shape) < rng.choice([0.0, 0.5])
    return np.where(is_shifted, np.nextafter(x, rng.choice([-9.0, 9.0], x.shape)), x)


def sums_of_values(
    how: AbstractReduction, q: jax.Array, k: jax.Array, logs: jax.Array
) -> Sums:
    """Means of the keys and logarithms of sums."""
    means = sums.tilted_mean(q, k, k, logs, reduction=how)
    return means, sums.log_sum_exp(q, k, logs, reduction=how)


def sums_by_derivatives(
    how: Cells, q: jax.Array, k: jax.Array, logs: jax.Array
) -> Sums:
    """The means as derivatives of the logarithms."""
    log_sums = lambda q: sums.log_sum_exp(q, k, logs, reduction=how)
    return jax.grad(lambda q: jnp.sum(log_sums(q)))(q), log_sums(q)


def sums_of_batch(how: Cells, q: jax.Array, k: jax.Array, logs: jax.Array) -> Sums:
    """Sums of one of two batched clouds."""
    two = jax.vmap(functools.partial(sums_of_values, how))
    actual = two(*(jnp.stack([x, x[::-1]]) for x in (q, k, logs)))
    return jax.tree.map(lambda x: x[0], actual)


WAYS: dict[str, Callable[..., Sums]] = {
    "eager": sums_of_values,
    "jit": jax.jit(sums_of_values, static_argnums=0),
    "grad": sums_by_derivatives,
    "grad in jit": jax.jit(sums_by_derivatives, static_argnums=0),
    "vmap": sums_of_batch,
}


def worst(layout: AbstractLayout, lattice: Lattice, actual: Sums) -> float:
    """The largest ratio of error and bound."""
    exact, bound = lattice.sums(), layout.bound
    radius = np.linalg.norm(lattice.k, axis=1).max()
    of_means = np.linalg.norm(actual[0] - exact[0], axis=1).max()
    of_logs = np.abs(actual[1] - exact[1]).max()
    return max(
        float(of_means / (bound / (1 - bound) * radius + ROUNDING)),
        float(of_logs / (-math.log1p(-bound) + ROUNDING)),
    )


def lattices(layout: AbstractLayout, count: int, n: int, seed: int) -> Iterator:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield Lattice.random(layout, n, rng)


@pytest.mark.parametrize("kind", [Layout, GaussLayout])
def test_points_on_cell_edges_have_the_sums_of_numpy(
    kind: type[AbstractLayout],
) -> None:
    """Outside of `jit`, where planning and sums round differently."""
    layout, errors = layout_of(kind, 1), []
    for lattice in lattices(layout, 12, 160, seed=1):
        actual = sums_of_values(CheckedCells(layout=layout), *map(jnp.asarray, lattice))
        if np.isfinite(actual[1]).all():  # otherwise queries see too few keys
            errors.append(worst(layout, lattice, actual))
    assert len(errors) >= 10
    assert 1e-8 < max(errors) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", [Layout, GaussLayout])
def test_sums_of_forty_lattices_hold_their_bounds(
    kind: type[AbstractLayout], d: int, way: str
) -> None:
    layout, errors = layout_of(kind, d), []
    # Derivatives of Gaussians in cells are sums without an error check.
    slack = 20 if "grad" in way else 1
    for lattice in lattices(layout, 40, 160, seed=d):
        actual = WAYS[way](CheckedCells(layout=layout), *map(jnp.asarray, lattice))
        if np.isfinite(actual[1]).all():
            errors.append(worst(layout, lattice, actual))
    assert len(errors) >= 20
    assert max(errors) <= slack


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kind", [Layout, GaussLayout])
def test_causal_sums_of_forty_lattices_hold_their_bounds(
    kind: type[AbstractLayout], d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions are on a lattice too: many tokens share one."""
    for name, value in (
        ("QUERY_BLOCK", 64),
        ("KEY_BLOCK", 32),
        ("block_size", lambda *_: 64),
    ):
        monkeypatch.setattr(f"{Layout.__module__[:-12]}_earlier_sums.{name}", value)
    layout, how, n_held = layout_of(kind, d), CheckedCells(layout=layout_of(kind, d)), 0
    score = Masked(Dot(jnp.eye(d), jnp.eye(d)), causal)

    @jax.jit
    def causal_sums(q: jax.Array, k: jax.Array, logs: jax.Array, at: jax.Array) -> Sums:
        keys = Keys(Tokens(k, at), logs, k)
        return how.log_mean(score, Tokens(q, at), keys)

    for lattice in lattices(layout, 40, 320, seed=d):
        at = np.random.default_rng(0).integers(0, 9, 320) / 8
        actual = causal_sums(*map(jnp.asarray, (*lattice, at)))
        exact = lattice.sums(at[None] <= at[:, None])
        if np.isfinite(actual[1]).all():
            n_held += 1
            bound, radius = layout.bound, np.linalg.norm(lattice.k, axis=1).max()
            error = np.linalg.norm(actual[0] - exact[0], axis=1).max()
            assert error <= bound / (1 - bound) * radius + ROUNDING
            assert np.abs(actual[1] - exact[1]).max() <= -math.log1p(-bound) + ROUNDING
    assert n_held >= 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "misses"), [(Blocked(16), 0.0), (Chebyshev(counts=(40,)), 1e-7)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interpolated_and_batched_sums_of_forty_lattices_hold_their_bounds(
    how: Blocked | Chebyshev, misses: float, dtype: type
) -> None:
    """Nodes of one box have no edges, and err as for any cloud."""
    layout, identity = layout_of(GaussLayout, 1), jnp.eye(1, dtype=dtype)
    # Scores of up to 9 are rounded, and added up.
    atol = 400 * float(np.finfo(dtype).eps) + misses
    for lattice in lattices(layout, 40, 160, seed=5):
        rounded_lattice = Lattice(*(np.asarray(x, dtype) for x in lattice))
        exact = Lattice(*(np.asarray(x, float) for x in rounded_lattice)).sums()
        q, k, logs = map(jnp.asarray, rounded_lattice)
        actual = how.log_mean(
            Dot(identity, identity), Tokens(q), Keys(Tokens(k), logs, k)
        )
        assert actual[1].dtype == dtype
        for ours, numpy in zip(actual, exact, strict=True):
            np.testing.assert_allclose(ours, numpy, rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "l2"])
def test_velocities_of_a_lattice_in_planned_cells(name: str) -> None:
    """Against NumPy, planned as in a flow; coordinates are multiples of 0.0003."""
    x = np.linspace(-6, 6, 40_001)[:, None]
    attention = attentions[name](-np.eye(1), np.eye(1), np.eye(1))
    ready = plan_sums(attention, Points.uniform(x, reduction=Cells(1e-4)), 0.0)
    assert isinstance(ready, Points)
    assert isinstance(ready.reduction, CheckedCells)
    sample = np.linspace(0, 40_000, 501).astype(int)
    scores = -x[sample] @ x.T if name == "softmax" else -((-x[sample] - x.T) ** 2)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = weights @ x / weights.sum(axis=1, keepdims=True)
    compute = lambda mu: attention.field(0.0, mu)(mu.tokens)
    for velocities in (compute(ready), jax.jit(compute)(ready)):
        error = np.abs(np.asarray(velocities)[sample] - exact).max()
        assert 0 < error <= 1e-4 * np.abs(exact).max()
