"""Coverage and tightness of the error estimates of flows on grids."""

from typing import NamedTuple

import numpy as np
from line_problems import LINES, Family, Problem, problem_on_line
from plane_problems import PLANES, problem_in_plane

import meanfield
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows import Isotropic, error_estimate, flow
from meanfield.measures import Gaussian, Grid
from meanfield.runs.representations._cells import Discretization
from meanfield.spec import parse

FAMILIES = LINES + PLANES
SEED = 20261122
RESOLUTION_LIMIT = 0.1  # above it a run does not end as `finished`


class Measurement(NamedTuple):
    """Errors of covariance and mean, in units of the spread, and their estimates."""

    name: str
    errors: tuple[float, float]
    estimates: tuple[float, float]

    @property
    def is_covered(self) -> bool:
        return all(e <= d for e, d in zip(self.errors, self.estimates, strict=True))

    @property
    def is_resolved(self) -> bool:
        return max(self.estimates) <= RESOLUTION_LIMIT


def grid_of(problem: Problem) -> Grid:
    """The initial grid of a run."""
    family = problem.family
    keys = {"measure": "grid", "box": family.box, "cells": family.cells, "d": family.d}
    if family.noisy:
        keys["noise"] = problem.kappa
    standard = Gaussian.from_moments(np.zeros(family.d), np.eye(family.d))
    cells = Discretization.from_spec(
        parse({**keys, **problem.reach}), np.dtype(np.float64)
    )
    return cells.law(problem.law, standard)


def measure(kind: Family, *seeds: int) -> Measurement | None:
    """The error of a random problem of a family, also in its middle frame.

    `None` if its grid is rejected, its flow ends early, or the reference is NaN.
    """
    random = problem_on_line if kind.d == 1 else problem_in_plane
    problem = random(kind, np.random.default_rng([SEED, *seeds]))
    mean, covariance = problem.exact()
    if not np.all(np.isfinite(covariance)):
        return None
    try:
        start = grid_of(problem)
    except InvalidInputError:
        return None
    attention = meanfield.attentions[kind.attention](
        problem.A, np.eye(kind.d), problem.V
    )
    noise = Isotropic(problem.kappa) if kind.noisy else None
    run = flow(attention, start, np.array([0, problem.t / 2, problem.t]), noise=noise)
    if run.status is not Status.FINISHED:
        return None
    end, law = run.final, problem.law
    gap = np.linalg.norm(np.asarray(start.covariance) - law.covariance)
    estimate = error_estimate(
        attention,
        start,
        end,
        span=(0.0, problem.t),
        noise=noise,
        start_error=float(gap / np.trace(law.covariance)),
    )
    trace = float(np.trace(end.covariance))
    errors = (
        float(np.linalg.norm(end.covariance - covariance) / trace),
        float(np.linalg.norm(end.mean - mean) / np.sqrt(trace)),
    )
    name = f"{kind} {seeds}: {problem.label}"
    return Measurement(name, errors, (estimate.covariance, estimate.mean))
