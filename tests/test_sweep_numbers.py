"""Sweeps over seeds and variants: each cell against its own equation."""

import csv
from pathlib import Path

import numpy as np
import pytest
from reference import Parameters, gaussian_linear
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.integrate import solve_ivp
from scipy.spatial.distance import pdist, squareform

from meanfield import runs
from meanfield.measures import Gaussian, Points
from meanfield.spec import parse, parse_axes

SEEDS, NAMES = (3, 5, 8), ("softmax", "l2")
SPEC = {"measure": "gaussian", "init": "mixture", "n": 40, "d": 2, "t": 0.2}


def moments(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Final moments by SciPy, from the start and the matrix of this seed."""
    values = {**SPEC, "attention": name, "A": "normal:0.4", "seed": seed}
    setup = runs.member(parse(values))
    assert isinstance(setup.measure, Gaussian)
    A = np.asarray(setup.dynamics.score.Q)  # pyright: ignore[reportAttributeAccessIssue]
    p = Parameters(A, np.eye(2), np.eye(2))

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        L, b = gaussian_linear(name, p, y[2:].reshape(2, 2), y[:2])
        S = L @ y[2:].reshape(2, 2)
        return np.concatenate([L @ y[:2] + b, np.ravel(S + S.T)])

    start = np.concatenate([setup.measure.mean, np.ravel(setup.measure.covariance)])
    end = solve_ivp(rate, (0, 0.2), start, rtol=1e-10, atol=1e-12).y[:, -1]
    return end[:2], end[2:].reshape(2, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The variant varies fastest, and its cells are in different chunks."""
    out = tmp_path_factory.mktemp("sweep") / "s"
    spec = parse({**SPEC, "A": "normal:0.4"})
    runs.sweep(spec, parse_axes("seed=3|5|8,attention=softmax|l2"), out=out)
    return out


@pytest.mark.slow
def test_a_seed_draws_matrix_and_start_of_its_cell(folder: Path) -> None:
    data = runs.sweep_dataset(folder)
    assert data["trace"].dims == ("seed", "attention")
    traces = np.zeros((3, 2))
    for i, seed in enumerate(SEEDS):
        for j, name in enumerate(NAMES):
            mean, cov = moments(name, seed)
            cell, values = data.isel(seed=i, attention=j), np.linalg.eigvalsh(cov)
            actual = [float(cell[key]) for key in ("mean0", "mean1", "cov01", "cov11")]
            expected = [*mean, cov[0, 1], cov[1, 1]]
            np.testing.assert_allclose(actual, expected, rtol=1e-6)
            extremes = [cell["smallest_eigenvalue"], cell["largest_eigenvalue"]]
            np.testing.assert_allclose(extremes, values, rtol=1e-6)
            traces[i, j] = np.trace(cov)
    np.testing.assert_allclose(data["trace"], traces, rtol=1e-6)
    assert np.ptp(traces) > 0.1


def test_rows_of_the_table_are_in_the_order_of_the_cells(folder: Path) -> None:
    with (folder / "table.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    order = [(int(row["seed"]), row["attention"]) for row in rows]
    assert order == [(seed, name) for seed in SEEDS for name in NAMES]
    traces = np.reshape([float(row["trace"]) for row in rows], (3, 2))
    np.testing.assert_array_equal(traces, runs.sweep_dataset(folder)["trace"])


def test_clusters_of_cells_match_single_linkage(tmp_path: Path) -> None:
    """Tokens at rest, V = 0, linked within the radius of the panel."""
    keys = {"init": "mixture", "n": 30, "d": 1, "V": 0.0, "t": 0.1}
    runs.sweep(parse(keys), parse_axes("seed=3|5"), out=tmp_path / "s")
    data = runs.sweep_dataset(tmp_path / "s")
    for i, seed in enumerate((3, 5)):
        measure = runs.member(parse({**keys, "seed": seed})).measure
        assert isinstance(measure, Points)
        x = np.asarray(measure.tokens.x)
        spread = np.sqrt(((x - x.mean(0)) ** 2).sum(1).mean())
        nearest = np.sort(squareform(pdist(x)), axis=1)[:, 1]
        radius = max(0.05 * spread, np.median(nearest) / 2)
        labels = fcluster(linkage(x, "single"), radius, "distance")
        cell = data.isel(seed=i)
        assert cell["clusters"] == labels.max()
        assert cell["heaviest_cluster"] == np.bincount(labels).max() / len(x)
        assert 1 < labels.max() < len(x)


@pytest.mark.slow
def test_noise_is_drawn_from_the_seed_of_each_cell(tmp_path: Path) -> None:
    """For any number of cells per chunk."""
    keys = {"n": 6, "d": 1, "t": 0.5, "noise": 0.3, "dt": 0.1}
    runs.sweep(parse(keys), parse_axes("seed=3|5|8"), out=tmp_path / "s", chunk=3)
    actual = runs.sweep_dataset(tmp_path / "s")["mean0"].values
    single_runs = [
        runs.moments_of(runs.execute(parse({**keys, "seed": seed})).measures[0])[0][0]
        for seed in SEEDS
    ]
    np.testing.assert_allclose(actual, single_runs, rtol=1e-12)
