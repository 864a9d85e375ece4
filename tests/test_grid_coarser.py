"""The coarser and narrower grids of error estimates, also in the plane."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from meanfield.flows import ErrorEstimate, Status
from meanfield.flows.error_estimates._error_estimate import coarsen
from meanfield.flows.error_estimates._walls import wall_mask
from meanfield.measures import Grid
from meanfield.measures.edges import even_edges, graded_edges
from meanfield.runs.records._endings import RESOLUTION_LIMIT, Outcome

AXES = np.array([[1.2, 0.3], [-0.4, 0.9]])


def skew_grid(n: int, m: int) -> Grid:
    """Random masses on a skewed box."""
    edges = [graded_edges(-2, 3, n), even_edges(-1.5, 2.0, m)]
    density = np.random.default_rng([n, m]).uniform(1, 2, (n, m))
    mu = Grid.from_density(edges, density)
    return mu.replace_coordinates(mu.state._replace(axes=jnp.asarray(AXES)))


@pytest.mark.parametrize(("n", "m"), [(16, 17), (19, 18)])
def test_joined_cells_keep_their_mass(n: int, m: int) -> None:
    """Cells are joined in pairs, with one or three where their number is odd."""
    fine = skew_grid(n, m)
    coarse = coarsen(fine)
    shape = coarse.state.masses.shape[1:]
    assert shape == tuple(math.ceil(k / 2) if k % 4 == 1 else k // 2 for k in (n, m))
    masses = np.asarray(fine.masses)
    owners = []
    for old, new in zip(fine.edges, coarse.edges, strict=True):
        assert (new[0], new[-1]) == (old[0], old[-1])
        middles = np.asarray(old[1:] + old[:-1]) / 2
        owners.append(np.searchsorted(np.asarray(new), middles) - 1)
    sums = np.zeros(shape)
    np.add.at(sums, np.ix_(*owners), masses)
    np.testing.assert_allclose(np.asarray(coarse.masses), sums, rtol=1e-13)
    np.testing.assert_array_equal(coarse.state.axes, fine.state.axes)


def test_narrowed_boxes_keep_the_relative_room_around_the_mean() -> None:
    """In the coordinates of the box, from the mean nearest to each of its ends."""
    mu = skew_grid(40, 60)
    later_grid = mu.replace_coordinates(
        mu.state._replace(masses=mu.state.masses[:, ::-1, :] ** 2)
    )
    room = np.asarray(wall_mask(mu, (mu, later_grid), 0.5))[0]
    xi = [np.linalg.solve(AXES, np.asarray(grid.mean)) for grid in (mu, later_grid)]
    inside = []
    for k, edges in enumerate(map(np.asarray, mu.edges)):
        low, high = min(x[k] for x in xi), max(x[k] for x in xi)
        first, last = (edges[0] + low) / 2, (edges[-1] + high) / 2
        inside.append((edges[:-1] >= first) & (edges[1:] <= last))
    np.testing.assert_array_equal(room, np.outer(*inside))
    assert bool(jnp.all(wall_mask(mu, (mu, later_grid), 0.0)))


@pytest.mark.parametrize("bad", [0.1001, 3.0, math.inf, math.nan])
def test_runs_with_a_ten_percent_error_are_not_finished(bad: float) -> None:
    """For either of covariance and mean, and if an estimate is NaN."""
    outcome = Outcome(Status.FINISHED, 1.0)
    for estimate in (
        ErrorEstimate(bad, 0.01, bad, 0.0),
        ErrorEstimate(0.01, bad, 0.0, 0.01),
    ):
        assert outcome.add_error_estimate(estimate).status is Status.UNRESOLVED
    known_estimate = ErrorEstimate(
        RESOLUTION_LIMIT, RESOLUTION_LIMIT, 0.0, RESOLUTION_LIMIT
    )
    assert outcome.add_error_estimate(known_estimate).status is Status.FINISHED
