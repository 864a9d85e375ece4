"""Sums in cells: errors stay below a bound known in advance, or sums are exact."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import ArrayLike
from numpy.random import Generator
from scipy.spatial.distance import pdist

from experiments import cells as costs
from meanfield import Tokens, sums
from meanfield.measures import AbstractReduction, Blocked, Dense, Keys
from meanfield.measures.reductions.cells import (
    AbstractLayout,
    Cells,
    GaussLayout,
    Layout,
    Nearness,
    cheapest_gauss_layout,
    cheapest_layout,
    error_share,
    extent,
    frame_sides,
    growth,
    largest_reach,
    refined_extents,
    relative_error,
)
from meanfield.measures.reductions.cells._cell_reductions import cell_log_mean
from meanfield.measures.reductions.cells._gauss import frame_by_means
from meanfield.scores import Dot

ROUNDING = 1e-13  # of numbers of order one


def interpolated_kernel(layout: Layout, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The interpolated kernel of each pair: a mean of one-hot values."""
    how = Cells(layout=layout)
    means, logs = how.log_mean(
        Dot(jnp.eye(q.shape[1]), jnp.eye(q.shape[1])),
        Tokens(jnp.asarray(q)),
        Keys(Tokens(jnp.asarray(k)), jnp.zeros(len(k)), jnp.eye(len(k))),
    )
    return np.asarray(means * jnp.exp(logs)[:, None])


def spans_of(q: np.ndarray, k: np.ndarray) -> list[float]:
    """How much scores vary around their middle, along each axis."""
    queries, keys = frame_sides(jnp.asarray(q), jnp.asarray(k))
    return np.asarray(queries.half * keys.half).tolist()


@pytest.mark.parametrize(("nodes", "reach"), [(3, 0.1), (6, 0.7), (10, 1.6), (16, 4.0)])
def test_the_error_of_one_axis_is_largest_at_its_end(nodes: int, reach: float) -> None:
    """Against barycentric interpolation, at all points and derivatives."""
    places = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    weights = (-1.0) ** np.arange(nodes) * np.sin(
        np.pi * (np.arange(nodes) + 0.5) / nodes
    )
    t = np.linspace(-1, 1, 1001)[:, None] + 1e-9
    basis = weights / (t - places)
    basis /= basis.sum(axis=1, keepdims=True)
    worst = max(
        np.abs(basis @ np.exp(z * places) * np.exp(-z * t[:, 0]) - 1).max()
        for z in np.linspace(-reach, reach, 21)
    )
    one_side = relative_error(nodes, reach) / (1 + growth(nodes, reach))
    assert worst == pytest.approx(one_side, rel=1e-3, abs=ROUNDING)
    assert largest_reach(nodes, relative_error(nodes, reach)) >= reach * (1 - 1e-6)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_kernel_errors_of_pairs_stay_below_the_bound(d: int, rng: Generator) -> None:
    q, k = rng.uniform(-2, 2, (60, d)), rng.uniform(-2, 2, (60, d))
    q[0], k[0] = 2.0, 2.0  # corners, where cells reach farthest
    spans = spans_of(q, k)
    for error in (1e-2, 1e-6):
        layout = cheapest_layout(spans, 120, 61, error=error)
        assert layout is not None
        exact = np.exp(q @ k.T)
        worst = np.abs(interpolated_kernel(layout, q, k) / exact - 1).max()
        assert 1e-9 * error < worst <= layout.bound
        assert layout.bound <= error


@pytest.mark.parametrize(("nodes", "width"), [(3, 0.2), (6, 0.3), (9, 0.5), (12, 1.0)])
def test_gaussian_errors_are_bounded_by_a_wider_gaussian(
    nodes: int, width: float, rng: Generator
) -> None:
    """Against interpolation on both sides, between cells at all distances."""
    places = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    weights = (-1.0) ** np.arange(nodes) * np.sin(
        np.pi * (np.arange(nodes) + 0.5) / nodes
    )
    t = np.linspace(-1, 1, 101) + 1e-9
    basis = weights / (t[:, None] - places)
    basis /= basis.sum(axis=1, keepdims=True)
    kernel = lambda apart: np.exp(-(apart**2) / 2)
    worst = 0.0
    for middle in np.append(rng.uniform(0, 12, 300), 0.0):
        distances = middle + width * (t[:, None] - t[None])
        nodes_apart = middle + width * (places[:, None] - places[None])
        errors = np.abs(basis @ kernel(nodes_apart) @ basis.T - kernel(distances))
        worst = max(worst, float((errors * np.exp(distances**2 / 6)).max()))
    assert 0.1 * error_share(nodes, width) < worst <= error_share(nodes, width)


def test_a_sum_of_gaussians_is_checked_by_one_of_wider_ones(rng: Generator) -> None:
    """In cells with a known share, the check agrees with NumPy."""
    x = rng.normal(size=(200, 2))
    q, logs = 2 * x, np.log(rng.random(200))
    arrays = jnp.asarray(q), jnp.asarray(x), jnp.asarray(logs), jnp.zeros((200, 0))
    sides = frame_by_means(*arrays[:3])
    a, b = (np.asarray(side.x) for side in sides)
    squared_distances = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
    gauge = logs + b @ np.asarray(sides[0].middle) + (b**2).sum(axis=1) / 2
    total = lambda variance: np.exp(gauge - squared_distances / (2 * variance)).sum(
        axis=1
    )
    loneliest = float((total(3.0) / total(1.0)).max())
    assert 1 < extent(*arrays[:3]).nearness.wide_ratio <= loneliest
    (of_every_query,) = refined_extents([arrays[:3]], error=1e-6)
    assert of_every_query.nearness.wide_ratio == pytest.approx(loneliest, rel=1e-6)
    for slack, is_bounded in ((1.01, True), (0.99, False)):
        layout = GaussLayout(9, (12, 12), 0.5, 0.0)
        limit = 2 * layout.share * loneliest * slack
        layout = dataclasses.replace(layout, limit=limit)
        assert bool(cell_log_mean(layout, *arrays)[2]) == is_bounded
    assert not cell_log_mean(GaussLayout(9, (4, 4), 0.5, 0.1), *arrays)[2]  # too wide


def problem(kind: str, n: int, d: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys that may be hard for a global grid."""
    x = rng.normal(size=(n, d))
    match kind:
        case "lonely":  # few tokens between two clusters
            x = 0.1 * x + 3 * rng.choice([-1, 1], (n, 1))
            x[: n // 50] = rng.uniform(-3, 3, (n // 50, d))
        case "heavy":
            x = rng.standard_t(4, (n, d)) / 2
        case "outlier":
            x[0] = 12.0
        case "far":
            x = x + 1000.0
        case "flat":
            x = x * np.logspace(0, -9, d)
        case _:
            pass
    A = rng.normal(size=(d, d)) @ np.diag(10 ** rng.uniform(-1, 0.5, d))
    return (x - x.mean(axis=0)) @ A.T + rng.normal(size=d), x


SLOW = (("gauss", 3), ("outlier", 3), ("far", 2))
KINDS = ("gauss", "lonely", "heavy", "outlier", "far", "flat")


def layouts(
    q: np.ndarray, k: np.ndarray, logs: np.ndarray, tolerance: float
) -> list[AbstractLayout]:
    """Layouts of either kind, where they exist."""
    sizes = 2 * len(q), q.shape[1] + 1
    actual = (
        cheapest_layout(
            [1.0 + span for span in spans_of(q, k)], *sizes, error=tolerance
        ),
        cheapest_gauss_layout(arrangements(q, k, logs), *sizes, error=tolerance),
    )
    return [layout for layout in actual if layout is not None]


def arrangements(q: np.ndarray, k: np.ndarray, logs: np.ndarray) -> Nearness:
    """Relative placements of queries and keys."""
    near = extent(*map(jnp.asarray, (q, k, logs))).nearness
    return Nearness(1.1 * near.halves, 2 * near.wide_ratio)


def worst_error(
    kind: str, n: int, d: int, rng: Generator, tolerance: float
) -> tuple[float, int]:
    """The largest error of means and logarithms over their bounds, in cells."""
    q, k = problem(kind, n, d, rng)
    logs = np.log(rng.random(n) ** rng.integers(0, 6))
    values = rng.normal(size=(n, d))
    exact, total = sums.tilted_mean(q, k, values, logs), sums.log_sum_exp(q, k, logs)
    # Products of coordinates of size |q||k| are rounded in exact sums, too.
    large = 1e-15 * np.abs(q).max() * np.abs(k).max()
    radius = pdist(values).max() / 2
    worst, in_cells = 0.0, 0
    for layout in layouts(q, k, logs, tolerance):
        how, bound = Cells(layout=layout), layout.bound
        means = sums.tilted_mean(q, k, values, logs, reduction=how)
        actual = sums.log_sum_exp(q, k, logs, reduction=how)
        errors = np.linalg.norm(means - exact, axis=1).max()
        of_means = errors / ((bound / (1 - bound) + large) * radius)
        of_logs = np.abs(actual - total).max() / (-np.log1p(-bound) + large)
        worst = max(worst, float(of_means), float(of_logs))
        in_cells += bool(np.any(means != exact))
    return worst, in_cells


@pytest.mark.slow_cases("flat-3")
@pytest.mark.parametrize(
    ("kind", "d"),
    [
        ("lonely", 2),
        ("flat", 3),
        pytest.param("heavy", 1, marks=pytest.mark.slow),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW),
    ],
)
def test_errors_of_sums_stay_below_their_bounds(
    kind: str, d: int, rng: Generator
) -> None:
    worst, _ = worst_error(kind, 600, d, rng, 1e-5)
    assert worst <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_four_hundred_problems_hold_their_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    in_cells = 0
    for _ in range(20):
        kind, d = rng.choice(KINDS), int(rng.integers(1, 5))
        tolerance = 10.0 ** rng.uniform(-8, -2)
        worst, is_interpolated = worst_error(str(kind), 2000, d, rng, tolerance)
        assert worst <= 1, (kind, d, tolerance)
        in_cells += is_interpolated
    assert in_cells >= 10


def test_pairs_beyond_the_cells_are_summed_exactly(rng: Generator) -> None:
    x = rng.normal(size=(300, 2))
    layout = cheapest_layout(spans_of(x, x), 600, 3, error=1e-3)
    assert layout is not None
    score, keys = (
        Dot(jnp.eye(2), jnp.eye(2)),
        lambda y: Keys(Tokens(y), jnp.zeros(300), y),
    )
    means = lambda how, y: how.log_mean(score, Tokens(y), keys(y))[0]
    near, far = jnp.asarray(x), jnp.asarray(1.1 * x)
    gap = lambda y: np.abs(means(Cells(layout=layout), y) - means(Blocked(), y)).max()
    assert 1e-9 < gap(near) < 1e-2
    assert gap(far) < 1e-12  # beyond the reach
    score = Dot(*2 * [jnp.eye(2, dtype=jnp.float32)])
    single = near.astype(jnp.float32)
    keys = lambda y: Keys(Tokens(y), jnp.zeros(300, jnp.float32), y)
    assert gap(single) == 0.0
    three = rng.normal(size=(300, 3))
    of_two_axes = Cells(layout=layout)
    actual = sums.log_sum_exp(three, three, reduction=of_two_axes)
    np.testing.assert_array_equal(actual, sums.log_sum_exp(three, three))


@pytest.mark.slow
def test_sums_that_underflow_are_exact(rng: Generator) -> None:
    """The last query sees only keys of weight e^-760 at the middle query."""
    q = np.linspace(0, 160, 50)[:, None]
    k = rng.uniform(0, 0.1, (60, 1)) + np.repeat([[0.0], [9.9]], 30, axis=0)
    logs = np.repeat([0.0, -1560.0], 30)
    layout = cheapest_layout([500.0], 110, 2, error=1e-2)
    assert layout is not None
    actual = sums.log_sum_exp(q, k, logs, reduction=Cells(layout=layout))
    np.testing.assert_allclose(actual, sums.log_sum_exp(q, k, logs), rtol=1e-13)
    assert actual[-1] > 20
    arrays = jnp.asarray(k), jnp.asarray(logs), jnp.zeros((60, 0))
    for queries, is_bounded in ((q, False), (q[:20], True)):
        actual = cell_log_mean(layout, jnp.asarray(queries), *arrays)
        assert bool(actual[2]) == is_bounded


def test_excluded_tokens_do_not_widen_the_box(rng: Generator) -> None:
    x = rng.normal(size=(500, 2))
    x[7] = 1e200
    logs = np.zeros(500)
    logs[7] = -np.inf
    layout = cheapest_layout([20.0, 20.0], 1000, 3, error=1e-6)
    assert layout is not None
    near = np.delete(x, 7, axis=0)
    actual = sums.tilted_mean(
        near, x, np.where(x > 1e9, 0, x), logs, reduction=Cells(layout=layout)
    )
    exact = sums.tilted_mean(near, near, near)
    assert 0 < np.abs(actual - exact).max() < 1e-5


def scalar_of_sums(
    how: object, Q: ArrayLike, x: ArrayLike, y: ArrayLike, logs: ArrayLike
) -> jax.Array:
    """A number that depends on all inputs of the sums."""
    keys = Keys(Tokens(jnp.asarray(y)), jnp.asarray(logs), jnp.sin(jnp.asarray(y)))
    means, totals = how.log_mean(  # pyright: ignore[reportAttributeAccessIssue]
        Dot(jnp.asarray(Q), jnp.eye(jnp.shape(Q)[0])), Tokens(jnp.asarray(x)), keys
    )
    return jnp.sum(jnp.cos(3 * means)) + jnp.sum(totals**2)


@pytest.mark.slow_cases("GaussLayout")
@pytest.mark.parametrize(
    "kind", [pytest.param(Layout, marks=pytest.mark.slow), GaussLayout]
)
def test_derivatives_match_those_of_exact_sums(kind: type, rng: Generator) -> None:
    d = 2
    layout = {
        Layout: cheapest_layout([40.0] * d, 60, d + 1, error=1e-9),
        GaussLayout: GaussLayout(14, (12, 12), 0.9, 1e-5),
    }[kind]
    assert layout is not None
    logs = np.log(rng.random(40))
    logs[3] = -np.inf
    where = (
        rng.normal(size=(d, d)),
        rng.normal(size=(30, d)),
        rng.normal(size=(40, d)),
        logs,
    )
    tangents = tuple(rng.normal(size=np.shape(part)) for part in where)
    cells, dense = (
        lambda *parts, how=how: scalar_of_sums(how, *parts)
        for how in (Cells(layout=layout), Dense())
    )
    numbers = (0, 1, 2, 3)
    for ours, exact in zip(
        jax.jit(jax.grad(cells, numbers))(*where),
        jax.grad(dense, numbers)(*where),
        strict=True,
    ):
        scale = np.abs(exact).max()
        np.testing.assert_allclose(ours, exact, atol=1e-6 * scale, rtol=0)
    forward = [jax.jvp(f, where, tangents)[1] for f in (cells, dense)]
    np.testing.assert_allclose(*forward, rtol=1e-6)
    second_derivatives = [
        jax.jvp(
            lambda x, f=f: jax.grad(f, 1)(where[0], x, *where[2:]),
            where[1:2],
            tangents[1:2],
        )[1]
        for f in (cells, dense)
    ]
    np.testing.assert_allclose(
        *second_derivatives, atol=1e-5 * np.abs(second_derivatives[1]).max(), rtol=0
    )


@pytest.mark.parametrize(
    "axes",
    [
        (0, None),
        pytest.param((None, 0), marks=pytest.mark.slow),
        pytest.param((0, 0), marks=pytest.mark.slow),
    ],
)
def test_many_clouds_are_summed_one_after_another(
    axes: tuple[int | None, int | None], rng: Generator
) -> None:
    """Under `vmap`, with a derivative inside, batched on one side or both."""
    batches = [jnp.asarray(rng.normal(size=(3, 20, 1))) for _ in axes]
    clouds = [x if axis == 0 else x[0] for x, axis in zip(batches, axes, strict=True)]

    def slopes(how: AbstractReduction) -> tuple[jax.Array, ...]:
        total = lambda q, k: jnp.sum(sums.log_sum_exp(q, k, reduction=how) ** 2)
        return jax.jit(jax.vmap(jax.grad(total, (0, 1)), axes))(*clouds)

    cells, dense = slopes(Cells(layout=Layout(8, (6,), 1.5))), slopes(Dense())
    for ours, exact in zip(cells, dense, strict=True):
        gap = np.abs(ours - exact).max()
        assert 1e-12 < gap < 1e-5 * np.abs(exact).max()


def test_the_guide_states_the_cost_of_cells() -> None:
    guide = Path(__file__).parent.parent / "docs" / "guide" / "reductions.md"
    assert costs.table() in guide.read_text(encoding="utf-8")
