"""Batched small clouds give the results of single ones, within a memory limit."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import Case, case, parameters
from jaxtyping import Array
from reference import masked_velocity, velocity
from scipy.integrate import solve_ivp
from scipy.special import logsumexp, softmax

from meanfield import Points, attentions, flow, runs
from meanfield.dynamics import AbstractDynamics, Heads, Prefix, stack_trees
from meanfield.endings import Status
from meanfield.flows import adaptive, ensemble, fixed, motion_of
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Chebyshev,
    Dense,
    Keys,
    max_batch_size,
)
from meanfield.measures.reductions import BlockedBatch
from meanfield.runs import Setup
from meanfield.runs.sweeps._cells import SweepCells
from meanfield.runs.sweeps._compute import plan_chunks
from meanfield.scores import Dot
from meanfield.spec import parse, parse_axes
from meanfield.tokens import Tokens

TS = np.array([0.0, 0.3, 1.0])
STEPS = {"adaptive": adaptive(rtol=1e-7), "fixed": fixed(1 / 16, "heun")}
MEGABYTE = 2**20  # a quarter of the block of a large cloud, in double precision
SPEC = {"n": 6, "d": 2, "t": 0.5, "frames": 5, "segment": 2}


def clouds(count: int, n: int = 12, d: int = 2) -> np.ndarray:
    """Clouds of different scales, so that their steps differ."""
    rng = np.random.default_rng(7)
    sizes = np.linspace(0.4, 1.8, count)[:, None, None]
    return sizes * rng.standard_normal((count, n, d))


@pytest.mark.slow_cases("softmax-fixed")
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("softmax", "adaptive"),
        ("softmax", "fixed"),
        pytest.param("sinkhorn", "adaptive", marks=pytest.mark.slow),
        pytest.param("sinkhorn", "fixed", marks=pytest.mark.slow),
    ],
)
def test_a_batched_cloud_matches_the_cloud_alone(name: str, steps: str) -> None:
    x, A = clouds(5), np.array([[0.8, 0.3], [-0.4, 0.5]])
    attention, stepping = attentions[name](A, np.eye(2), -np.eye(2)), STEPS[steps]
    stack = stack_trees([Points.uniform(cloud) for cloud in x])
    assert motion_of(stack).batch_size(stack) >= len(x)
    block = ensemble(attention, stack, TS, stepping=stepping)
    second = ensemble(attention, stack, TS, stepping=stepping)
    assert np.array_equal(block.coordinates, second.coordinates)
    for i, cloud in enumerate(x):
        single = flow(attention, Points.uniform(cloud), TS, stepping=stepping)
        gap = np.max(np.abs(block.coordinates[i] - single.coordinates))
        assert gap <= 1e-12 * np.max(np.abs(cloud))
        tries = single.n_accepted, single.n_rejected
        assert (block.n_accepted[i], block.n_rejected[i]) == tries
        assert block.code[i] == single.code == Status.FINISHED


def test_batched_clouds_follow_their_equation(rng: np.random.Generator) -> None:
    x, p = clouds(4), parameters(rng, 2)
    w = np.full(12, 1 / 12)
    stack = stack_trees([Points.uniform(cloud) for cloud in x])
    law = attentions["softmax"](p.Q, p.K, p.V, epsilon=p.epsilon)
    actual = ensemble(law, stack, TS, stepping=adaptive(rtol=1e-9))

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        y = flat.reshape(12, 2)
        return velocity("softmax", p, y, y, w).ravel()

    for cloud, last in zip(x, actual.last, strict=True):
        exact = solve_ivp(rate, (0, 1), cloud.ravel(), rtol=1e-11, atol=1e-12).y[:, -1]
        assert np.max(np.abs(last.ravel() - exact)) < 1e-7 * np.max(np.abs(exact))


@pytest.mark.parametrize(
    ("n", "d", "reduction", "several"),
    [
        (64, 2, Blocked(), True),
        (64, 2, Dense(), True),
        (64, 8, Blocked(), True),
        (1, 1, Blocked(), True),
        (16, 200, Blocked(), True),
        (400, 2, Blocked(), False),
        (10_000, 2, Blocked(), False),
        (9, 2, Blocked(4), False),
        (64, 2, Chebyshev(1e-6), False),
    ],
)
def test_batched_clouds_use_at_most_a_megabyte(
    n: int, d: int, reduction: AbstractReduction, *, several: bool
) -> None:
    cloud = Points.uniform(np.ones((n, d)), reduction=reduction)
    count = motion_of(cloud).batch_size(cloud)
    assert (count > 1) is several
    if several:
        numbers = count * n * (n + d)
        assert MEGABYTE / 2 < 8 * numbers <= MEGABYTE


@pytest.mark.parametrize("scale", [1.0, 30.0])  # larger scales make bounds useless
def test_batched_sums_match_the_definition(
    scale: float, rng: np.random.Generator
) -> None:
    x = scale * rng.standard_normal((3, 9, 2))
    logs = np.log(rng.uniform(0.2, 1.0, (3, 9)))
    logs[0, 4] = -np.inf  # an excluded token
    score = Dot(np.array([[1.0, 0.2], [-0.5, 0.7]]), np.eye(2))

    def sums(cloud: Array, weights: Array) -> tuple[Array, Array]:
        tokens = Tokens(cloud)
        return BlockedBatch().log_mean(score, tokens, Keys(tokens, weights, cloud))

    means, masses = jax.jit(jax.vmap(sums))(jnp.asarray(x), jnp.asarray(logs))
    for i in range(3):
        S = x[i] @ np.asarray(score.A).T @ x[i].T + logs[i][None]
        exact = softmax(S, axis=1) @ x[i]
        rounding = 1e-15 * max(10.0, np.max(np.abs(S[np.isfinite(S)])))
        assert np.max(np.abs(means[i] - exact)) <= 4 * rounding * np.max(np.abs(x))
        assert np.max(np.abs(masses[i] - logsumexp(S, axis=1))) <= 4 * rounding


def test_a_batched_cloud_without_mass_has_zero_sums(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 9, 2))
    logs = jnp.asarray([[-np.inf] * 9, [0.0] * 9])
    score = Dot(np.eye(2), np.eye(2))

    def sums(cloud: Array, weights: Array) -> tuple[Array, Array]:
        tokens = Tokens(cloud)
        return BlockedBatch().log_mean(score, tokens, Keys(tokens, weights, cloud))

    means, masses = jax.vmap(sums)(jnp.asarray(x), logs)
    assert np.all(means[0] == 0)
    assert np.all(masses[0] == -np.inf)
    assert np.max(np.abs(masses[1] - logsumexp(x[1] @ x[1].T, axis=1))) < 1e-14


def test_draws_match_the_flows_of_their_members(tmp_path: Path) -> None:
    spec = parse({**SPEC, "A": "normal", "draws": 4, "seed": 2})
    runs.execute(spec, out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    for i, member in enumerate(Setup(spec).members()):
        single = flow(member.dynamics, member.measure, data["time"].values)
        states = data["x"].values[i]
        gap = np.max(np.abs(states - single.coordinates))
        assert gap < 1e-8 * np.max(np.abs(states))  # segments begin new steps


@pytest.mark.slow
def test_sweeps_of_small_clouds_batch_their_cells(tmp_path: Path) -> None:
    spec, axes = parse({**SPEC, "V": -1.0}), parse_axes("seed=1:12:12")
    number, size = plan_chunks(SweepCells(spec, axes), None)
    assert (number, size) == (1, 2)  # an eighth of the cells
    large = parse({**SPEC, "n": 3000, "V": -1.0})
    assert plan_chunks(SweepCells(large, axes), None) == (1, 1)
    for chunk in (None, 1):
        runs.sweep(spec, axes, out=tmp_path / str(chunk), chunk=chunk)
    several, single = (runs.sweep_dataset(tmp_path / str(c)) for c in (None, 1))
    np.testing.assert_allclose(several["trace"], single["trace"], rtol=1e-12)
    assert len(set(several["trace"].values)) == 12


@eqx.filter_jit
def velocities(dynamics: AbstractDynamics, mu: Points) -> Array:
    return dynamics.field(0.0, mu)(mu.tokens)


def heads_of(cases: list[Case], name: str) -> Heads:
    return Heads(stack_trees([c.attention(name) for c in cases]))


@pytest.mark.parametrize("mask", [None, "causal"])
def test_batched_heads_sum_dense_velocities(
    mask: str | None, rng: np.random.Generator
) -> None:
    cases = [case(rng, n=10, d=3) for _ in range(8)]
    c, heads = cases[0], heads_of(cases, "softmax")
    sees = np.tril(np.ones((10, 10), bool))
    ways = [c.points(Blocked()), c.points(Blocked(4))]  # batched, one by one
    exact = np.zeros_like(c.x)
    for names in cases:
        if mask is None:
            exact += velocity("softmax", names.p, c.x, c.x, c.w)
        else:
            exact += masked_velocity("softmax", names.p, c.x, c.w, sees)
    law = heads if mask is None else Prefix(heads)
    for mu in ways:
        gap = np.max(np.abs(velocities(law, mu) - exact))
        assert gap < 1e-13 * np.max(np.abs(exact))


def test_prefixes_of_a_cloud_that_fills_no_whole_blocks(
    rng: np.random.Generator,
) -> None:
    """The last block is padded, and the padding has no effect."""
    c = case(rng, n=64, d=2)
    mu = Points.weighted(c.x, c.w, position=np.linspace(0, 1, 64))
    assert 64 % max_batch_size(mu) not in (0, 64)
    exact = masked_velocity("softmax", c.p, c.x, c.w, np.tril(np.ones((64, 64), bool)))
    gap = np.max(np.abs(velocities(Prefix(c.attention("softmax")), mu) - exact))
    assert gap < 1e-13 * np.max(np.abs(exact))


@pytest.mark.slow
def test_batched_sinkhorn_heads_match_single_ones(rng: np.random.Generator) -> None:
    cases = [case(rng, n=10, d=3) for _ in range(4)]
    heads, c = heads_of(cases, "sinkhorn"), cases[0]
    batched_velocities, single_velocities = (
        velocities(heads, c.points(how)) for how in (Blocked(), Blocked(4))
    )
    # The iteration ends at an error of 4e-11 of the marginals.
    assert np.max(np.abs(batched_velocities - single_velocities)) < 1e-9 * np.max(
        np.abs(single_velocities)
    )
    assert _loops(heads, c.points(Blocked())) < _loops(heads, c.points(Blocked(4)))


def _loops(dynamics: AbstractDynamics, mu: Points) -> int:
    """Number of loops over heads in a program: scans with as many steps as heads."""
    arrays, rest = eqx.partition((dynamics, mu), eqx.is_array)
    compute = lambda arrays: velocities(*eqx.combine(arrays, rest))
    text = str(jax.make_jaxpr(compute)(arrays))
    return text.count("length=4")
