"""Sinkhorn potentials by OTT."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import acceleration
from ott.solvers.linear import sinkhorn as ott_sinkhorn

from benchmarks._marginals import cloud, facts
from benchmarks._trial import Job, Trial


def plain(trial: Trial) -> Job:
    """Sinkhorn with default settings."""
    return _job(trial)


def anderson(trial: Trial) -> Job:
    """Sinkhorn with Anderson acceleration over five iterates."""
    return _job(trial, anderson=acceleration.AndersonAcceleration(memory=5))


def momentum(trial: Trial) -> Job:
    """Sinkhorn with adaptive momentum."""
    return _job(trial, momentum=acceleration.Momentum(start=20))


def _job(trial: Trial, **options: Any) -> Job:
    """Job that iterates until the L¹ norm of a marginal error is below a tolerance."""
    reg = 2 * trial.settings["epsilon"]  # OTT's cost is |x - y|², not |x - y|²/2
    solver = ott_sinkhorn.Sinkhorn(
        threshold=trial.settings["tolerance"], max_iterations=10_000, **options
    )
    x = jnp.asarray(cloud(trial))

    @jax.jit
    def potentials_of(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        geometry = pointcloud.PointCloud(x, epsilon=reg)
        solution = solver(linear_problem.LinearProblem(geometry))
        return solution.f, solution.g

    def error_facts(potentials: tuple[jax.Array, jax.Array]) -> dict[str, Any]:
        f, g = (np.asarray(potential) / reg for potential in potentials)
        return facts(trial, f, g)

    return Job(lambda: jax.block_until_ready(potentials_of(x)), error_facts)
