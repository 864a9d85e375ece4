"""Sweeps over seeds and variants: each cell against its own equation."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import Parameters, gaussian_linear
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.integrate import solve_ivp
from scipy.spatial.distance import pdist, squareform

import meanfield
from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.measures import Gaussian, Points
from meanfield.plotting import Look, panels
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


OBSERVED = {"measure": "gaussian", "d": 1, "t": 1.0, "frames": 5}


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Variances over time, of which those with A = 1 blow up."""
    out = tmp_path_factory.mktemp("curves") / "s"
    spec = parse({**OBSERVED, "observe": ["covariance", "rank"]})
    runs.sweep(spec, parse_axes("A=-1|1,cov=0.3|1"), out=out, chunk=1)
    return out


def test_observed_numbers_follow_the_closed_form_until_the_end(curves: Path) -> None:
    """Σ(t) = Σ₀/(1 − 2AΣ₀t) under softmax with V = 1, and none after t*."""
    data = runs.sweep_dataset(curves)
    assert data["cov00_curve"].dims == ("A", "cov", "time")
    t = np.linspace(0, 1, 5)
    np.testing.assert_array_equal(data["time"], t)
    A, cov = np.array([-1.0, 1.0])[:, None, None], np.array([0.3, 1.0])[:, None]
    rest = 1 - 2 * A * cov * t
    expected = np.where(rest > 0, cov / np.where(rest > 0, rest, 1), np.nan)
    assert np.isnan(expected).any()
    np.testing.assert_allclose(data["cov00_curve"], expected, rtol=1e-6)
    ranks = np.where(np.isnan(expected), np.nan, 1.0)
    np.testing.assert_array_equal(data["effective_rank_curve"], ranks)


def test_a_sweep_that_observes_has_the_final_numbers_of_one_that_does_not(
    curves: Path, tmp_path: Path
) -> None:
    axes = parse_axes("A=-1|1,cov=0.3|1")
    runs.sweep(parse(OBSERVED), axes, out=tmp_path / "s", chunk=1)
    plain = runs.sweep_dataset(tmp_path / "s")
    assert "time" not in plain.dims
    for name in ("trace", "t_star"):
        observed = runs.sweep_dataset(curves)[name]
        np.testing.assert_allclose(plain[name], observed, rtol=1e-6)


def test_numbers_over_time_are_drawn_against_time(curves: Path) -> None:
    """An arrow marks sizes after a blow-up; numbers of the panel `phase` are final."""
    data = meanfield.open(curves).isel(A=1)
    look = Look(x="time", colour="cov00")
    axes = panels["lines"](data, look).axes[0]
    assert axes.get_ylabel() == r"$\Sigma_{11}$"
    curve = data["cov00_curve"].isel(cov=0).values
    drawn = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    assert any(len(y) == 5 and np.array_equal(y, curve) for y in drawn)
    with pytest.raises(InvalidInputError, match="no quantity `cov00_curve`"):
        panels["phase"](meanfield.open(curves), Look(colour="cov00_curve"))


@pytest.mark.parametrize(
    ("keys", "over", "message"),
    [
        ({"observe": ["energy"]}, "A=-1|1", "cannot observe `energy`; known: mean"),
        ({"observe": ["rank"]}, "t=1|2", "leave out the axis `t`"),
        ({"observe": ["covariance"], "d": 5}, "A=-1|1", "observe `covariance`"),
    ],
)
def test_what_a_sweep_cannot_observe_is_said_before_it_begins(
    tmp_path: Path, keys: dict[str, Any], over: str, message: str
) -> None:
    spec = parse({**OBSERVED, **keys})
    with pytest.raises(InvalidInputError, match=message):
        runs.sweep(spec, parse_axes(over), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_sweep_without_observed_numbers_names_the_option(folder: Path) -> None:
    data = runs.sweep_dataset(folder)
    with pytest.raises(InvalidInputError, match="--observe effective_rank"):
        panels["lines"](data, Look(x="time"))


def test_seeds_without_effect_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(6, 2)))
    spec = parse({"init": f"@{tmp_path}/x.npy", "A": -1.0, "t": 0.1})
    with pytest.raises(InvalidInputError, match="`seed` has no effect"):
        runs.sweep(spec, parse_axes("seed=0|1,epsilon=1|2|3|4"), out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_numbers_over_time_have_a_table_of_their_own(curves: Path) -> None:
    with (curves / "curves.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 4 * 5
    assert list(rows[0]) == ["A", "cov", "t", "effective_rank", "cov00"]
    numbers = np.reshape([float(row["cov00"]) for row in rows], (2, 2, 5))
    np.testing.assert_array_equal(numbers, runs.sweep_dataset(curves)["cov00_curve"])
    header = (curves / "table.csv").read_text().partition("\n")[0]
    assert "_t0" not in header
