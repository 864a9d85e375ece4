"""Cells along flows: planned with a bound on velocity errors, and replanned."""

import functools
import gc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult
from helpers import assert_close
from interpolation_problems import KINDS, THIN, Problem
from jaxtyping import Array

from meanfield import Drift, Heads, Perceptron, Points, Sum, attentions
from meanfield.attention import Attention, Softmax
from meanfield.attention._coupling import ShapeCheckedField
from meanfield.attention.differential import Difference
from meanfield.dynamics import AbstractDynamics, causal, stack_trees
from meanfield.dynamics.clock import ScaledField
from meanfield.dynamics.combine import StackedField
from meanfield.energies import energies
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Image, Total, total
from meanfield.flows import adaptive, flow, has_bound, plan_sums
from meanfield.flows.motions.points.planning import sum_convergence
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    CheckedCells,
    Layout,
    Survey,
    use_exact_sums,
)
from meanfield.measures.reductions.cells import Findings
from meanfield.runs import Member
from meanfield.runs.setup._observe import plan_cell_sums
from meanfield.scores import Masked

Command = Callable[..., CommandResult]
LAYOUT = Layout(nodes=9, cells=(6, 5), reach=1.2)


@eqx.filter_jit
def velocities_and_error(moves: AbstractDynamics, mu: Points) -> tuple[Array, Array]:
    """Velocities, and the error that a flow would report."""
    freeze = functools.partial(moves.field, jnp.zeros(()))
    field = freeze(mu)
    convergence = sum_convergence(freeze, mu, field)
    assert convergence is not None
    return field(mu.tokens), convergence.residual


def scale_to_cells(problem: Problem, layout: Layout) -> Problem:
    """The problem rescaled so that scores vary by as much as cells resolve."""
    notes, mu = Findings(), Points.weighted(problem.x, problem.w)
    moves = attentions["softmax"](problem.A, np.eye(2), problem.V)
    survey = Points(mu.tokens, mu.log_weights, Survey(findings=notes))
    moves.field(0.0, survey)(mu.tokens)
    room = layout.reach * np.asarray(layout.cells) / notes.extents()[0].spans
    return problem._replace(A=0.999 * problem.A * room.min())


@pytest.mark.parametrize("kind", KINDS + THIN)
def test_velocity_errors_stay_below_their_bound(kind: str) -> None:
    """At all tokens, against NumPy, relative to the largest velocity."""
    for seed in range(3):
        p = scale_to_cells(
            Problem.random(kind, "softmax", seed, n=900, d=2, sharpness=1.0), LAYOUT
        )
        mu = Points.weighted(p.x, p.w, reduction=CheckedCells(layout=LAYOUT))
        moves = attentions["softmax"](p.A, np.eye(2), p.V)
        v, failure = velocities_and_error(moves, mu)
        exact = p.velocities(p.x)
        # Inner products are rounded in exact sums, too: far from the origin by more.
        scores = np.abs(p.x).max() ** 2 * np.linalg.norm(p.A, 2)
        rounding = 20 * np.finfo(float).eps * (1 + scores) * np.abs(p.x @ p.V.T).max()
        error = np.abs(np.asarray(v) - exact).max()
        assert error <= float(failure) * np.abs(exact).max() + rounding


def test_the_velocity_bound_is_tight(rng: np.random.Generator) -> None:
    """The worst kernels within their bounds reach the bound."""
    x, V, b = rng.normal(size=(40, 2)), rng.normal(size=(2, 2)), 1e-3
    x = np.concatenate([x, 4.0 * np.array([[1.0, 0.0], [-1.0, 0.0]])])
    moves = attentions["softmax"](1e-9 * np.eye(2), np.eye(2), V)
    mu = Points.weighted(x, [1e-6] * 40 + [1.0, 1.0])
    w = np.asarray(mu.weights)
    way = np.linalg.svd(V)[2][0] @ x.T  # the directions that V stretches most and least
    perturbed_weights = w * (1 + b * np.sign(way))
    change = V @ (perturbed_weights @ x / perturbed_weights.sum() - w @ x)
    condition = moves.field(0.0, mu).condition
    assert condition is not None
    share = np.linalg.norm(change) / (float(condition) * b / (1 - b))
    assert 0.3 < share <= 1.0


TWO = Points.uniform([[-2.0, 0.0], [2.0, 0.0]])
FIELDS: dict[str, Callable[[AbstractField], AbstractField]] = {
    "itself": lambda v: v,
    "scaled": lambda v: ScaledField(jnp.asarray(-3.0), v),
    "image": lambda v: Image(jnp.diag(jnp.array([-2.0, 0.1])), jnp.ones(2), v),
    "total": lambda v: Total((v, ScaledField(jnp.asarray(0.5), v), still())),
    "difference": lambda v: Difference(v, v, jnp.asarray(-0.8)),  # type: ignore[arg-type]
    "checked": lambda v: ShapeCheckedField(v, jax.tree_util.Partial(lambda: "one")),
    "heads": lambda v: StackedField(jax.tree.map(lambda x: jnp.stack([x, x]), v)),
}


def still() -> AbstractField:
    """A perceptron and a drift, which have no sums over tokens."""
    fold = Perceptron([[1.0, 0.0]], [[0.3], [0.1]]).field(0.0, TWO)
    return Total((fold, Drift(-np.eye(2)).field(0.0, TWO)))


@pytest.mark.parametrize("name", FIELDS)
def test_the_bound_of_field_errors_is_tight(name: str) -> None:
    """With equal kernels, and two tokens of perturbed weights."""
    b, identity = 1e-4, np.eye(2)
    softmax = attentions["softmax"](1e-12 * identity, identity, identity)
    tilted_measure = Points.weighted(TWO.tokens.x, [0.5 * (1 - b), 0.5 * (1 + b)])
    exact, perturbed_velocities = (
        FIELDS[name](softmax.coupling.barycentre(softmax.score, mu))
        for mu in (TWO, tilted_measure)
    )
    gap = np.linalg.norm(
        perturbed_velocities(TWO.tokens) - exact(TWO.tokens), axis=1
    ).max()
    assert exact.condition is not None
    np.testing.assert_allclose(gap, b * float(exact.condition), rtol=1e-6)


def test_without_fields_the_error_bound_is_zero() -> None:
    assert total(()).condition == 0


def test_excluded_tokens_add_no_velocity_error() -> None:
    far = Points.weighted([[99.0], [101.0], [0.0]], [1.0, 1.0, 0.0])
    identity = np.eye(1)
    assert (
        attentions["softmax"](identity, identity, identity).field(0.0, far).condition
        == 1
    )


def test_scores_of_many_dimensions_are_summed_exactly(rng: np.random.Generator) -> None:
    x, Q = rng.normal(size=(20_000, 2)), 0.1 * rng.normal(size=(64, 2))
    mu = Points.uniform(x, reduction=Cells(1e-3))
    wide = plan_sums(attentions["softmax"](Q, Q, np.eye(2)), mu, 0.0)
    assert isinstance(wide.reduction, Blocked)


@pytest.mark.slow
def test_sums_inside_jit_are_exact(rng: np.random.Generator) -> None:
    x, identity = rng.normal(size=(3000, 1)), np.eye(1)
    softmax = attentions["softmax"](-identity, identity, identity)

    def end(how: AbstractReduction) -> Array:
        mu = Points.uniform(x, reduction=how)
        return jax.jit(lambda c: c * flow(softmax, mu, [0.0, 0.1]).final.tokens.x)(1.0)

    assert_close(end(Cells(1e-4)), end(Blocked()))


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan])
def test_invalid_tolerances_are_rejected(tolerance: float) -> None:
    for kind in (Cells, Chebyshev):
        with pytest.raises(
            InvalidInputError, match=r"`tolerance`, .* must be .* 0 and 1; got"
        ):
            kind(tolerance)


def parts(d: int) -> list[AbstractDynamics]:
    identity = np.eye(d)
    heads = [
        attentions["softmax"](-identity, identity, v * identity) for v in (1.0, -0.5)
    ]
    return [
        Sum(attentions["l2"](0.5 * identity, identity, identity), Drift(-identity)),
        Heads(stack_trees(heads)),
        attentions["differential"](identity, identity, identity),
        attentions["exp"](-0.5 * identity, identity, identity),
        attentions["sinkhorn"](identity, identity, identity),
    ]


NAMES = ("l2", "heads", "differential", "exp", "sinkhorn")
SLOW = ("heads", "differential", "exp", "sinkhorn")


@pytest.mark.slow_cases("l2")
@pytest.mark.parametrize(
    "moves",
    [
        pytest.param(part, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for part, name in zip(parts(1), NAMES, strict=True)
    ],
)
def test_flow_frames_match_exact_sums(
    moves: AbstractDynamics, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(3000, 1))
    mu, ts = Points.uniform(x, reduction=Cells(1e-4)), np.linspace(0, 0.3, 3)
    run = flow(moves, mu, ts, stepping=adaptive(rtol=1e-4))
    assert isinstance(run.start.reduction, CheckedCells)
    assert 0 < float(run.sum_error) <= 1e-4
    exact = flow(moves, Points.uniform(x), ts, stepping=adaptive(rtol=1e-4))
    gap = jnp.max(jnp.abs(run.coordinates - exact.coordinates))
    assert float(gap) <= 1e-4 * float(jnp.max(jnp.abs(exact.coordinates)))
    assert float(exact.sum_error) == 0.0


@pytest.mark.slow
def test_a_cloud_that_outgrows_its_cells_is_replanned(rng: np.random.Generator) -> None:
    """No step is accepted whose sums exceed the bound."""
    identity = np.eye(1)
    moves = Sum(
        attentions["softmax"](identity, identity, 0.1 * identity), Drift(identity)
    )
    x, ts = rng.normal(size=(3000, 1)), [0.0, 0.5]
    mu = Points.uniform(x, reduction=Cells(1e-4))
    first = plan_sums(moves, mu, 0.0).reduction
    run = flow(moves, mu, ts, stepping=adaptive(rtol=1e-4))
    assert isinstance(first, CheckedCells)
    last = run.start.reduction
    assert isinstance(last, CheckedCells)
    assert first.layout is not None
    assert last.layout is not None
    room = lambda layout: layout.cells[0] * layout.width
    assert room(last.layout) >= 1.4 * room(first.layout)
    exact = flow(moves, Points.uniform(x), ts, stepping=adaptive(rtol=1e-4))
    np.testing.assert_allclose(run.coordinates, exact.coordinates, rtol=2e-4, atol=1e-4)


@pytest.mark.slow
def test_sums_that_would_underflow_in_cells_are_exact(rng: np.random.Generator) -> None:
    """Keys that a sum needs have weights that underflow beside others."""
    x = np.concatenate([rng.normal(size=(2999, 1)), [[40.0]]])
    weights = np.concatenate([np.ones(2999), [1e-300]])
    identity = np.eye(1)
    moves = attentions["softmax"](20 * identity, identity, identity)
    mu = Points.weighted(x, weights, reduction=Cells(1e-3))
    run = flow(moves, mu, [0.0, 0.01], stepping=adaptive(rtol=1e-4))
    exact = flow(moves, use_exact_sums(mu), [0.0, 0.01], stepping=adaptive(rtol=1e-4))
    np.testing.assert_allclose(run.coordinates, exact.coordinates, rtol=1e-4)


def test_cells_are_planned_only_if_they_resolve_all_sums(
    rng: np.random.Generator,
) -> None:
    """Also under a causal mask; not in single precision, for links or few tokens."""
    large, identity = rng.normal(size=(20_000, 1)), np.eye(1)
    auto, places = Cells(1e-4, fallback=Chebyshev(1e-4)), np.arange(20_000) / 20_000

    def kind(moves: AbstractDynamics, x: np.ndarray) -> type:
        mu = Points.uniform(x, position=places[: len(x)], reduction=auto)
        return type(plan_sums(moves, mu, 0.0).reduction)

    softmax = attentions["softmax"](identity, identity, identity)
    assert kind(softmax, large) is CheckedCells
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), softmax)
    assert kind(single, large.astype(np.float32)) is Chebyshev
    masked = Attention(Masked(softmax.score, causal), Softmax(), identity)
    assert kind(masked, large) is CheckedCells
    assert kind(attentions["sigmoid"](identity, identity, identity), large) is Blocked
    assert kind(softmax, large[:100]) is Blocked
    assert has_bound(softmax, Points.uniform(large))


@pytest.mark.slow
def test_the_report_states_the_cell_error(cli: Command) -> None:
    options = ("--n=3000", "--d=1", "--A=-1", "--t=0.1", "--frames=2")
    result = cli("simulate", *options, "--reduction=cells:1e-6")
    assert "cells, " in result.out
    assert "nodes an axis; velocities are off by at most " in result.out
    assert "velocities" not in cli("simulate", *options).out


@pytest.mark.slow
def test_energies_of_a_run_are_summed_in_cells(rng: np.random.Generator) -> None:
    """Exact where cells cannot resolve them; few tokens use no cells."""
    identity, t = np.eye(1), jnp.zeros(())
    softmax = attentions["softmax"](identity, identity, identity)
    large = Points.uniform(rng.normal(size=(20_000, 1)), reduction=Cells())
    measure = plan_cell_sums(Member(softmax, large), large.tokens.x, t)
    assert isinstance(measure, Points)
    assert type(measure.reduction) is Cells
    assert measure.reduction.is_planned
    energy_in_cells, exact_energy = (
        energies[k](identity, identity, identity, epsilon=1.0)
        for k in ("interaction", "interaction-l2")
    )
    for energy in (energy_in_cells, exact_energy):
        exact = float(energy(large.replace_reduction(Blocked())))
        assert float(energy(measure)) == pytest.approx(exact, rel=1e-6)
    small = Points.uniform(rng.normal(size=(100, 1)), reduction=Cells())
    assert plan_cell_sums(Member(softmax, small), small.tokens.x, t) is small


def test_planning_leaves_no_notes(rng: np.random.Generator) -> None:
    """JAX's tables keep the structure of arguments, and would keep these objects."""
    identity = np.eye(1)
    softmax = attentions["softmax"](identity, identity, identity)
    mu = Points.uniform(rng.normal(size=(20_000, 1)), reduction=Cells())
    assert isinstance(plan_sums(softmax, mu, 0.0), Points)
    gc.collect()
    assert [part for part in gc.get_objects() if type(part) is Findings] == []
