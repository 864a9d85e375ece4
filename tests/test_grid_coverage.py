"""Error estimates of flows on grids cover the errors of known moments."""

import line_reference as lines
import numpy as np
import plane_reference as planes
import pytest
from error_estimate_coverage import FAMILIES, measure
from line_problems import LINES, Family, problem_on_line

SMALLEST_ERROR = 1e-4  # smallest error to compare with error bars
PLACE = np.array([0.3, -0.2]), np.array([[0.7, 0.2], [-0.1, 0.5]])
A, V = np.array([[0.5, 0.3], [-0.4, 0.2]]), np.array([[1.1, -0.2], [0.3, 0.8]])


@pytest.mark.parametrize("attention", ["softmax", "l2"])
def test_tokens_in_the_plane_follow_the_closed_form(attention: str) -> None:
    """The nodes of a shifted and sheared normal law, under any matrices."""
    law = planes.bumps(np.zeros((1, 2)), np.ones(1), np.ones(1), PLACE)
    m, F = PLACE
    closed = lines.gaussian_moments(attention, A, V, 0.0, (m, F @ F.T), 0.8)
    for moment, exact in zip(
        planes.moments_by_tokens(law, attention, A, V, 0.8), closed, strict=True
    ):
        np.testing.assert_allclose(moment, exact, atol=1e-7)


def test_unstable_spectral_references_give_nan() -> None:
    """A wrong reference mean was once compared with an error bar."""
    random = np.random.default_rng([20261122, 6, 12])
    _, covariance = problem_on_line(LINES[6], random).exact()
    assert np.isnan(covariance).all()


@pytest.mark.parametrize("kind", ["disc", "dome", "ring", "cusp", "student"])
def test_laws_in_the_plane_have_the_moments_of_their_densities(kind: str) -> None:
    """Mass, mean and covariance by sums over a fine lattice."""
    extra = {"ring": (0.3,), "student": (12.0,)}.get(kind, ())
    law = getattr(planes, kind)(PLACE, *extra)
    side = np.linspace(-30, 30, 1001)
    z = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    x = law.mean + z @ np.linalg.cholesky(law.covariance).T
    area = (side[1] - side[0]) ** 2 * np.sqrt(np.linalg.det(law.covariance))
    w = law.density(x) * area
    mean = w @ x / w.sum()
    tolerance = 5e-3 if kind == "disc" else 1e-4  # of a lattice that meets a jump
    assert abs(w.sum() - 1) < tolerance
    np.testing.assert_allclose(mean, PLACE[0], atol=tolerance)
    spread = (w[:, None] * (x - mean)).T @ (x - mean)
    np.testing.assert_allclose(spread, law.covariance, atol=tolerance)


@pytest.mark.slow
def test_error_bars_cover_flows_with_known_moments() -> None:
    """Densities of every shape under softmax, on an odd number of cells."""
    kind = Family("softmax", "affine", 201)
    rows = [row for i in range(6) if (row := measure(kind, i)) is not None]
    assert len(rows) >= 4
    assert all(row.is_covered for row in rows), rows
    assert sum(row.is_resolved for row in rows) >= len(rows) / 2


@pytest.mark.slow
def test_error_bars_cover_99_of_100_flows_of_every_kind() -> None:
    """At least 300, in every box, with and without noise: see docs/numerics.md."""
    rows = [
        row
        for i, kind in enumerate(FAMILIES)
        for k in range(kind.count)
        if (row := measure(kind, i, k)) is not None
    ]
    assert len(rows) >= 300
    misses = [row for row in rows if not row.is_covered]
    assert len(misses) <= 0.01 * len(rows), misses
    resolved_rows = [row for row in rows if row.is_resolved]
    assert max(max(row.errors) for row in resolved_rows) <= 0.1
    ratios = [
        row.estimates[0] / row.errors[0]
        for row in rows
        if row.errors[0] > SMALLEST_ERROR
    ]
    assert np.median(ratios) < 30
