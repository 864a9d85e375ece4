"""Interpolated sums along flows: the check of a step bounds its error."""

import functools
import itertools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from interpolation_problems import KINDS, THIN, Problem
from jaxtyping import Array

from meanfield import attentions
from meanfield.attention import Attention
from meanfield.flows import adaptive, flow
from meanfield.flows.motions.points.planning import sum_convergence
from meanfield.measures import Chebyshev, Points, worst_tokens

slow = pytest.mark.slow


def attention(problem: Problem, dtype: type) -> Attention:
    A, V = problem.A.astype(dtype), problem.V.astype(dtype)
    return attentions[problem.name](A, np.eye(len(A), dtype=dtype), V)


@eqx.filter_jit
def velocities(moves: Attention, mu: Points) -> Array:
    return moves.field(jnp.zeros((), mu.tokens.x.dtype), mu)(mu.tokens)


@eqx.filter_jit
def velocities_and_error(moves: Attention, mu: Points) -> tuple[Array, Array]:
    """Velocities, and the error estimate of a flow after each step."""
    freeze = functools.partial(moves.field, jnp.zeros((), mu.tokens.x.dtype))
    field = freeze(mu)
    convergence = sum_convergence(freeze, mu, field)
    assert convergence is not None
    return field(mu.tokens), convergence.residual


class Case(NamedTuple):
    """Problems that share a compiled program."""

    name: str
    counts: tuple[int, ...]
    n: int
    sharpness: float
    dtype: type = np.float64
    seeds: int = 8

    def ratios(self, kind: str, seed: int) -> list[float]:
        """Errors over their estimates, at states of a flow integrated in NumPy."""
        d = len(self.counts)
        p = Problem.random(
            kind, self.name, seed, n=self.n, d=d, sharpness=self.sharpness
        )
        y, dt, ratios = p.x, (0.05, 0.2, 0.5)[seed % 3] / np.linalg.norm(p.V, 2), []
        for _ in range(4):
            x, w = y.astype(self.dtype), p.w.astype(self.dtype)
            mu = Points.weighted(x, w, reduction=Chebyshev(counts=self.counts))
            v, bound = velocities_and_error(attention(p, self.dtype), mu)
            exact = p.velocities(x)
            largest = np.max(np.abs(exact))
            error = np.max(np.abs(np.asarray(v) - exact)) / largest
            # A velocity is a mean of V y, and rounded as these are, however small.
            rounding = 100 * np.finfo(self.dtype).eps * np.max(np.abs(x @ p.V.T))
            # The estimate matters only above rounding, and below a hopeless error.
            if float(bound) <= 1e-2:
                ratios.append(error / max(float(bound), rounding / largest))
            y = y + dt * p.velocities(y)
        return ratios


LINE = Case("softmax", (48,), 1200, 100.0, seeds=2)
CASES = [
    Case("l2", (96,), 2000, 300.0),
    Case("softmax", (32,), 2000, 60.0),
    Case("softmax", (48,), 2000, 100.0, np.float32),
    Case("l2", (24, 24), 2000, 60.0),
    # At 200 the estimates of 187 of 352 states exceed 1e-2: too few are left.
    Case("softmax", (48, 32), 2500, 150.0),
    Case("softmax", (32, 16), 2000, 100.0, np.float32),
    Case("softmax", (16, 16, 16), 4500, 40.0, seeds=4),
]


@pytest.mark.parametrize(
    "case", [LINE, *(pytest.param(case, marks=slow) for case in CASES)], ids=str
)
def test_the_error_estimate_bounds_a_steps_error(case: Case):
    """Whatever the tolerance: an accepted step has no larger error."""
    seeds = range(case.seeds)
    ratios = [case.ratios(kind, s) for kind in KINDS + THIN for s in seeds]
    flat = [ratio for group in ratios for ratio in group]
    assert len(flat) >= 2 * case.seeds * len(KINDS + THIN)  # half of the states
    assert max(flat) <= 1


@pytest.mark.parametrize("d", [2, 3])
def test_empty_cells_are_not_probed(d: int, rng: np.random.Generator):
    """Two clusters fill few cells, and are probed as often as a full box."""
    x = rng.choice([-1.0, 1.0], (5000, 1)) + 0.1 * rng.normal(size=(5000, d))
    gaps = rng.uniform(size=5000)
    probe_ids = np.unique(np.asarray(worst_tokens(jnp.asarray(x), jnp.asarray(gaps))))
    assert len(probe_ids) >= 100
    assert np.argmax(gaps) in probe_ids


@eqx.filter_jit
def velocities_error_and_convergence(
    moves: Attention, mu: Points
) -> tuple[Array, Array, Array]:
    """Velocities, their error estimate, and whether potentials converged."""
    velocities, error_estimate = velocities_and_error(moves, mu)
    convergence = moves.field(0.0, mu).convergence
    assert convergence is not None
    return velocities, error_estimate, convergence.residual <= convergence.tolerance


@slow
@pytest.mark.parametrize(
    ("counts", "tolerance", "sharpness", "dtype"),
    [
        ((48,), 1e-5, 40.0, np.float64),
        ((32,), 1e-3, 40.0, np.float32),
        ((24, 16), 1e-3, 8.0, np.float64),
    ],
)
def test_interpolated_potentials_hold_the_tolerance(
    counts: tuple[int, ...], tolerance: float, sharpness: float, dtype: type
):
    """Velocities of Sinkhorn attention, where a flow would continue."""
    n_interpolated = 0
    for kind, seed in itertools.product(KINDS + THIN, range(2)):
        p = Problem.random(
            kind, "sinkhorn", seed, n=1000, d=len(counts), sharpness=sharpness
        )
        p = p._replace(x=p.x.astype(dtype), w=p.w.astype(dtype))
        mu = Points.weighted(p.x, p.w, reduction=Chebyshev(tolerance, counts=counts))
        v, bound, is_converged = velocities_error_and_convergence(
            attention(p, dtype), mu
        )
        if is_converged and bound <= tolerance:
            exact, n_interpolated = p.sinkhorn_velocities(), n_interpolated + 1
            error = np.max(np.abs(np.asarray(v) - exact))
            assert error <= tolerance * np.max(np.abs(exact))
    assert n_interpolated >= 15


@slow
@pytest.mark.parametrize(
    ("name", "d", "tolerance", "dtype"),
    [
        ("softmax", 1, 1e-5, np.float64),
        ("l2", 1, 1e-3, np.float32),
        ("softmax", 2, 1e-7, np.float64),
        ("l2", 2, 1e-3, np.float32),
        ("softmax", 3, 1e-4, np.float64),
    ],
)
def test_every_frame_of_a_flow_holds_the_tolerance(
    name: str, d: int, tolerance: float, dtype: type
):
    """At all tokens, between steps too; most flows end with nodes.

    Of 2000 tokens on a line six of eleven end with exact sums, which cost less.
    """
    n, sharpness = {1: (3000, 60.0), 2: (4000, 12.0), 3: (8000, 3.0)}[d]
    n_interpolated = 0
    for kind in KINDS + THIN:
        p = Problem.random(kind, name, 0, n=n, d=d, sharpness=sharpness)
        x, w = p.x.astype(dtype), p.w.astype(dtype)
        mu, moves = (
            Points.weighted(x, w, reduction=Chebyshev(tolerance)),
            attention(p, dtype),
        )
        ts = np.linspace(0, 0.4, 5)
        trajectory = flow(moves, mu, ts, stepping=adaptive(rtol=tolerance))
        n_interpolated += isinstance(trajectory.start.reduction, Chebyshev)
        for index in range(int(trajectory.n_saved)):
            now = trajectory.frame(index)
            exact = p.velocities(np.asarray(now.coordinates))
            error = np.max(np.abs(np.asarray(velocities(moves, now)) - exact))
            assert error <= tolerance * np.max(np.abs(exact))
    assert n_interpolated >= 6
