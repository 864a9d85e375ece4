"""Sums as functions of arrays: plans, errors, Sinkhorn's potentials."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import ArrayLike
from numpy.random import Generator

from meanfield import Points, Tokens, attentions, sums
from meanfield.errors import InvalidInputError
from meanfield.measures import Blocked
from meanfield.measures.reductions.cells import (
    Cells,
    GaussLayout,
    Layout,
    cheapest_layout,
    choose_layout,
)
from meanfield.sums import _transport


@pytest.mark.slow
def test_sums_work_for_point_clouds_and_zero_weights(rng: Generator) -> None:
    how = Cells(layout=Layout(6, (2, 2), 1.5))
    point = jnp.array([[1.0, 2.0]])
    points = jnp.tile(point, (5, 1))
    for x in (point, points):
        mean = sums.tilted_mean(x, x, x, reduction=how)
        np.testing.assert_allclose(mean, x, rtol=1e-14)
        slope = jax.grad(lambda q: jnp.sum(sums.log_sum_exp(q, points, reduction=how)))(
            x
        )
        np.testing.assert_allclose(slope, x, rtol=1e-14)
    nothing = jnp.full(5, -jnp.inf)
    assert np.all(np.isneginf(sums.log_sum_exp(points, points, nothing, reduction=how)))
    assert np.all(sums.tilted_mean(points, points, points, nothing, reduction=how) == 0)
    far = jnp.asarray(rng.normal(size=(5, 2))).at[2].set(1e200)
    out = jnp.zeros(5).at[2].set(-jnp.inf)
    logs = lambda k: jnp.sum(sums.log_sum_exp(points, k, out, reduction=how) ** 2)
    slopes = jax.jit(jax.grad(logs))(far)
    assert np.all(np.isfinite(slopes))
    assert np.all(slopes[2] == 0)


@pytest.mark.slow
def test_a_plan_uses_exact_sums_where_cheaper(rng: Generator) -> None:
    small, large = rng.normal(size=(50, 2)), rng.normal(size=(30_000, 2))
    assert sums.plan(small, small) == Blocked()
    assert sums.plan(large.astype(np.float32), large.astype(np.float32)) == Blocked()
    plan = sums.plan(large, large, columns=2)
    assert isinstance(plan, Cells)
    assert plan.layout is not None
    assert plan.layout.bound <= 1e-6
    assert sums.plan(40 * large, 40 * large) == Blocked()
    assert (
        cheapest_layout([5e4], 60_000, 2, error=1e-6) is None
    )  # of kernels along one axis
    sample = large[:500]
    actual = sums.tilted_mean(sample, large, large, reduction=plan)
    exact = sums.tilted_mean(sample, large, large)
    assert 0 < np.abs(actual - exact).max() < 1e-6
    softmax = attentions["softmax"](jnp.eye(2), jnp.eye(2), jnp.eye(2))
    field = softmax.field(0.0, Points.uniform(large[:2000], reduction=plan))
    expected = softmax.field(0.0, Points.uniform(large[:2000]))
    at = Tokens(jnp.asarray(sample))
    assert 0 < np.abs(field(at) - expected(at)).max() < 1e-5


def test_bad_input_of_sums_is_rejected_in_one_line(rng: Generator) -> None:
    x = rng.normal(size=(5, 2))
    for call, message in (
        (lambda: sums.log_sum_exp(x, x[:, :1]), "columns; got 2 and 1"),
        (lambda: sums.log_sum_exp(x[0], x), "`queries` must be a non-empty matrix"),
        (lambda: sums.tilted_mean(x, x, x[:3]), "each of the 5 keys; got 3"),
        (lambda: sums.log_sum_exp(x, x, x[:, 0][:4]), "each of the 5 keys"),
        (lambda: sums.plan(x, x, tolerance=0.5), "`tolerance` must be between"),
        (lambda: sums.plan(x, x, columns=-1), "`columns` must not be negative"),
        (lambda: sums.log_sum_exp(1e200 * x, 1e200 * x), "exceed the largest float"),
        (lambda: jax.jit(lambda y: y * len(repr(sums.plan(y, y))))(x), "outside, and"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()


@pytest.mark.slow
def test_sinkhorn_potentials_make_a_plan(rng: Generator) -> None:
    q, k = 2 * rng.normal(size=(30, 2)) + 1, rng.normal(size=(20, 2)) - 3
    a, b = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(20))
    logs = (np.log(a), np.log(b))
    f, g, residual, tolerance = sums.sinkhorn(q, k, logs)
    plan = a[:, None] * b[None] * np.exp(q @ k.T + f[:, None] + g[None])
    assert residual <= tolerance
    np.testing.assert_allclose(plan.sum(axis=1), a, rtol=1e-9)
    np.testing.assert_allclose(plan.sum(axis=0), b, rtol=1e-9)

    def potential(q: ArrayLike) -> jax.Array:
        """The potential of pairs: a constant may move between both sides."""
        f, g, *_ = sums.sinkhorn(q, k, logs, tolerance=1e-13)
        return jnp.sum(jnp.sin(f[:, None] + g[None]))

    step = 1e-5 * rng.normal(size=q.shape)
    slope = (potential(q + step) - potential(q - step)) / 2
    tangent = jnp.sum(jax.grad(potential)(jnp.asarray(q)) * step)
    np.testing.assert_allclose(tangent, slope, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["square", "more rows", "lonely"])
def test_sinkhorn_in_cells_makes_a_plan(
    kind: str, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For two clouds, by NumPy: within the tolerance, and with the planned sums."""
    monkeypatch.setattr(_transport, "COMPILE_SECONDS", -np.inf)
    monkeypatch.setattr(
        "meanfield.sums._potentials.fall_back_to_exact", None
    )  # no exact sums
    layouts = []
    spy = lambda *args, **sizes: (
        layouts.append(choose_layout(*args, **sizes)) or layouts[-1]
    )
    monkeypatch.setattr(_transport, "choose_layout", spy)
    m = 1500 if kind == "square" else 2500
    shear = np.array([[2.0, 0.5], [0.0, 1.0]])
    q, k = rng.normal(size=(m, 2)) @ shear, rng.normal(size=(1500, 2))
    if kind == "lonely":  # far from all others, and neither probed nor an extreme
        q[[0, 1, 1003]] = np.array([[4.0, 0.0], [0.0, 4.0], [3.4, 3.4]]) @ shear
    a, b = rng.dirichlet(np.full(m, 5.0)), rng.dirichlet(np.full(1500, 5.0))
    actual = sums.sinkhorn(
        5 * q, k, (np.log(a), np.log(b)), reduction=Cells(1e-5), tolerance=1e-8
    )
    f, g, residual, tolerance = map(np.asarray, actual)
    plan = a[:, None] * b[None] * np.exp(5 * q @ k.T + f[:, None] + g[None])
    errors = [np.abs(plan.sum(axis=i) / w - 1).max() for i, w in ((1, a), (0, b))]
    assert 1e-12 < max(errors) < 1e-5
    assert residual <= max(tolerance, 1e-5)
    assert len(layouts) == 2  # a rough layout, and one that never exceeded its bound


def test_slow_exact_sums_give_a_warning() -> None:
    """Inside `jit` no cells are planned; shapes determine the time."""
    x = jax.ShapeDtypeStruct((1_000_000, 2), jnp.float64)
    residual_of = lambda x: sums.sinkhorn(x, x, reduction=Cells(1e-6)).residual
    with pytest.warns(UserWarning, match="exact sums over 1e.12 pairs are used"):
        jax.eval_shape(residual_of, x)


def test_sinkhorn_inside_a_jit_is_exact(rng: Generator) -> None:
    """No cells can be planned there, so their tolerance is not needed."""
    q, k = rng.normal(size=(20, 1)), rng.normal(size=(30, 1))
    inside = jax.jit(lambda q: sums.sinkhorn(q, k, reduction=Cells(1e-3)))(q)
    assert float(inside.tolerance) < 1e-9
    exact = sums.sinkhorn(q, k).key_potential
    np.testing.assert_allclose(inside.key_potential, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_sinkhorn_beyond_its_cells_is_exact(rng: Generator) -> None:
    """Cells planned for other vectors are too wide, so no pass uses them."""
    x = rng.normal(size=(60, 1))
    narrow = Cells(1e-6, layout=GaussLayout(6, (3,), 0.01, 1e-6))
    actual, exact = (
        sums.sinkhorn(4 * x, x, reduction=how, tolerance=1e-10)
        for how in (narrow, Blocked())
    )
    assert actual.residual <= 1e-10
    np.testing.assert_allclose(
        actual.key_potential, exact.key_potential, rtol=1e-6, atol=1e-6
    )
