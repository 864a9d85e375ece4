"""Densities from the command line and from specs: starts, stores, endings, errors."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult
from scipy.integrate import solve_ivp
from scipy.special import ndtr
from scipy.stats import gaussian_kde

from meanfield import runs
from meanfield.errors import InvalidInputError, ResourceError
from meanfield.measures import FixedBox, Grid
from meanfield.spec import parse
from meanfield.storage import RunStore, export

Command = Callable[..., CommandResult]
GRID = {"measure": "grid", "A": -1.0, "V": 1.0, "cells": 80}
LINE = {**GRID, "t": 1.0, "frames": 5, "segment": 2}

# Variances in one dimension with A = a, V = 1, epsilon = 1, from the closed forms.
RATES = {
    "softmax": lambda s, a: 2 * a * s**2,
    "l2": lambda s, a: 2 * a * s**2 / (s + 0.5),
    "sinkhorn": lambda s, a: 4 * a * s**2 / (1 + math.sqrt(1 + 4 * (a * s) ** 2)),
}


def variance(attention: str, a: float, t: float) -> float:
    rate = RATES[attention]
    solution = solve_ivp(lambda _, s: rate(s[0], a), (0, t), [1.0], rtol=1e-10)
    return solution.y[0, -1]


def grid_of(result: runs.Result) -> Grid:
    grid = result.measures[0]
    assert isinstance(grid, Grid)
    return grid


def covariance(result: runs.Result) -> np.ndarray:
    return np.asarray(grid_of(result).covariance)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grids") / "line"
    runs.execute(parse(LINE), out=path)
    return path


@pytest.mark.slow
def test_a_report_has_the_variance_of_the_closed_form(cli: Command) -> None:
    args = ("--measure", "grid", "--attention", "softmax", "--A=-1", "--V", "1")
    result = cli("simulate", *args, "--cov", "1", "--t", "1", "--frames", "2", "--json")
    report = json.loads(result.out)
    assert (result.code, report["ending"], report["cells"]) == (0, "finished", [400])
    assert abs(report["covariance"][0][0] - variance("softmax", -1, 1)) < 1e-4
    assert abs(report["mass"] + report["outflow"] - 1) < 1e-13
    assert report["n"] is None


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["l2", "sinkhorn"])
def test_variances_follow_their_closed_forms(attention: str) -> None:
    result = runs.execute(parse({**LINE, "attention": attention, "cells": 120}))
    grid = grid_of(result)
    assert result.outcome.name == "finished"
    assert abs(covariance_of(grid) - variance(attention, -1, 1)) < 1e-4
    assert abs(float(grid.mass + grid.outflow) - 1) < 1e-13


@pytest.mark.slow
def test_a_growing_density_takes_its_box_along() -> None:
    spec = {"measure": "grid", "attention": "l2", "A": 1.0, "t": 2.0, "frames": 2}
    assert covariance(runs.execute(parse(spec)))[0, 0] == pytest.approx(
        variance("l2", 1, 2), rel=1e-5
    )


@pytest.mark.slow
def test_a_correlated_gaussian_in_the_plane_follows_its_closed_form() -> None:
    r"""Softmax keeps it Gaussian: $\Sigma' = V\Sigma A\Sigma + (V\Sigma A\Sigma)^T$."""
    A = np.array([[-1.0, 0.5], [-0.3, -0.8]])
    start = np.array([[1.0, 0.6], [0.6, 0.8]])

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        S = flat.reshape(2, 2)
        return (S @ A @ S + (S @ A @ S).T).ravel()

    exact = solve_ivp(rate, (0, 0.5), start.ravel(), rtol=1e-10).y[:, -1]
    spec = {**GRID, "A": A.tolist(), "cov": start.tolist(), "cells": 48, "t": 0.5}
    actual = covariance(runs.execute(parse({**spec, "frames": 2})))
    np.testing.assert_allclose(actual.ravel(), exact, atol=1e-4)


def test_a_start_has_the_masses_of_its_law_in_every_cell() -> None:
    spec = {**GRID, "mean": 0.5, "cov": 2.0, "domain": [-12, 14], "grading": 5}
    grid = runs.start(parse(spec)).members[0].measure
    assert isinstance(grid, Grid)
    edges = np.asarray(grid.edges[0])
    exact = np.diff(ndtr((edges - 0.5) / np.sqrt(2)))
    np.testing.assert_allclose(np.asarray(grid.masses), exact, atol=1e-8)
    assert np.max(np.diff(edges)) == pytest.approx(5 * np.min(np.diff(edges)), rel=0.05)
    assert edges[[0, -1]].tolist() == [-12, 14]


@pytest.mark.slow
def test_identical_masked_layers_stay_identical() -> None:
    """Each prefix has the same law, which moves as without a mask."""
    spec = {**GRID, "mask": "causal", "positions": 3, "t": 0.5, "frames": 2}
    grid = grid_of(runs.execute(parse({**spec, "cells": 40})))
    assert grid.position is not None
    np.testing.assert_allclose(np.asarray(grid.position), [1 / 6, 1 / 2, 5 / 6])
    masses = np.asarray(grid.masses)
    np.testing.assert_allclose(masses.sum(axis=1), 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(masses[1:], masses[:1].repeat(2, axis=0), atol=1e-12)
    assert covariance_of(grid) == pytest.approx(1 / 2, abs=1e-3)


@pytest.mark.slow
def test_what_is_stored_reads_as_a_density(line: Path) -> None:
    data = runs.dataset(line)
    assert data["mass"].dims == data["density"].dims == ("time", "cell_x")
    assert data.attrs["kind"] == "grid"
    assert data.attrs["title"] == "softmax attention: a density"
    h = np.diff(data["edges_x"].values) * data["axes"].values[:, 0, 0, None]
    total = np.sum(data["density"].values * h, axis=1)
    np.testing.assert_allclose(total + data["outflow"].values, 1, rtol=1e-13)
    assert RunStore.open(line).spec["box"] == "affine"


def test_exports_have_the_places_of_cells(line: Path, tmp_path: Path) -> None:
    data = runs.dataset(line)
    export(data, tmp_path / "a.npz")
    export(data, tmp_path / "a.csv")
    arrays = np.load(tmp_path / "a.npz")
    x, w = arrays["centre"][..., 0], arrays["mass"]
    h = np.diff(x, axis=1)[:, 0]
    moment = np.sum(w * x**2, axis=1) / np.sum(w, axis=1) - h**2 / 12
    times = data["time"].values
    np.testing.assert_allclose(moment, 1 / (1 + 2 * times), rtol=1e-3)
    table = np.genfromtxt(tmp_path / "a.csv", delimiter=",", names=True)
    assert (table.dtype.names or ())[:4] == ("time", "x0", "density", "mass")
    np.testing.assert_array_equal(table["density"], data["density"].values.ravel())
    np.testing.assert_array_equal(table["x0"], x.ravel())


def test_a_grid_continues_from_a_stored_grid(line: Path) -> None:
    """With its cells; as a Gaussian with its moments; but not as points."""
    keys = {"A": -1.0, "source": str(line), "at": 1.0, "t": 2.0}
    keys |= {"frames": 5, "segment": 2}
    result = runs.execute(parse({**keys, "measure": "grid"}))
    closed = runs.execute(parse({**keys, "measure": "gaussian"}))
    assert covariance(result)[0, 0] == pytest.approx(1 / 5, abs=1e-4)
    assert runs.moments_of(closed.measures[0])[1][0, 0] == pytest.approx(0.2, abs=1e-4)
    assert result.spec.box == "affine"
    for bad_key, words in [
        ({"measure": "points"}, "use `measure = grid`"),
        ({"measure": "grid", "cells": 50}, "has the same cells: leave out `cells`"),
        ({"measure": "grid", "mask": "causal"}, "was run without a mask"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            runs.start(parse({**keys, **bad_key}))


def test_from_keeps_the_keys_that_the_new_measure_has(cli: Command, line: Path) -> None:
    start = ("simulate", "--from", str(line), "--t", "1.1", "--json")
    assert json.loads(cli(*start, "--dry-run").out)["cells"] == 80
    assert json.loads(cli(*start, "--measure", "gaussian").out)["ending"] == "finished"
    gaussian = ("--measure", "gaussian", "--A=-1", "--t", "1", "--rtol", "1e-6")
    assert cli("simulate", *gaussian, "--out", "g").code == 0
    args = ("--measure", "grid", "--cells", "80", "--t", "2")
    args += ("--frames", "5", "--segment", "2")
    report = json.loads(cli("simulate", "--from", "g", *args, "--json").out)
    assert report["covariance"][0][0] == pytest.approx(0.2, abs=1e-4)


def test_tokens_of_a_file_become_a_density_with_a_note(
    cli: Command, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.normal(size=300)
    np.save(tmp_path / "x.npy", x)
    args = ("--measure=grid", "--init=@x.npy", "--A=-1", "--cells=80", "--t=1e-9")
    times = ("--frames", "5", "--segment", "2", "--json", "--out", "run")
    report = json.loads(cli("simulate", *args, *times).out)
    assert report["bandwidth"] == pytest.approx(300 ** (-1 / 5))  # Scott's rule
    assert report["mean"][0] == pytest.approx(np.mean(x), abs=1e-4)
    assert report["covariance"][0][0] == pytest.approx(np.var(x), rel=1e-4)
    title = runs.dataset(tmp_path / "run").attrs["title"]
    assert "of tokens blurred by 0.32 standard deviations" in title


def test_scotts_bandwidth_counts_effective_tokens(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 1)))
    w = np.arange(1.0, 41.0)
    tokens = {"init": f"@{tmp_path}/x.npy", "weights": w.tolist()}
    spec = runs.start(parse({**GRID, **tokens})).spec
    effective = np.sum(w) ** 2 / np.sum(w**2)
    assert spec.bandwidth == pytest.approx(effective ** (-1 / 5))


def test_tokens_in_a_domain_keep_their_spread(tmp_path: Path) -> None:
    """Kernels are as wide as a fraction of the deviation, in boxes of any unit."""
    x = 3 * np.random.default_rng(1).normal(size=(200, 1))
    np.save(tmp_path / "x.npy", x)
    keys = {"init": f"@{tmp_path}/x.npy", "domain": [-25.0, 25.0], "bandwidth": 0.5}
    grid = runs.start(parse({**GRID, **keys, "cells": 400})).members[0].measure
    assert isinstance(grid, Grid)
    assert float(grid.mean[0]) == pytest.approx(np.mean(x), abs=1e-6)
    assert float(grid.covariance[0, 0]) == pytest.approx(np.var(x), rel=1e-6)


@pytest.mark.slow
def test_a_continued_density_keeps_the_motion_of_its_box(tmp_path: Path) -> None:
    """A domain stays fixed, also in the run that continues."""
    first = {**GRID, "cells": 40, "domain": [-6.0, 6.0], "t": 0.1, "frames": 2}
    runs.execute(parse(first), out=tmp_path / "line")
    goes_on = {"measure": "grid", "source": str(tmp_path / "line"), "at": 0.1}
    run = runs.start(parse({**goes_on, "A": -1.0, "t": 0.2}))
    start = run.members[0].measure
    assert isinstance(start, Grid)
    assert isinstance(start.box, FixedBox)
    assert run.spec.box == "fixed"


def test_a_stretched_law_is_in_the_middle_of_its_box() -> None:
    """The mean of the mixture is scaled with it, as its tokens are."""
    keys = {"init": "mixture", "cov": 9.0, "mean": 2.0, "V": 1.0, "A": 1.0}
    tokens = runs.member(parse({**keys, "n": 40_000})).measure
    middle = float(np.mean(np.asarray(tokens.coordinates)))
    start = runs.member(parse({**keys, "measure": "grid"})).measure
    assert isinstance(start, Grid)
    # Tokens err by 3 · 0.25 / √40000: components have equally many.
    assert float(start.state.origin[0]) == pytest.approx(middle, abs=0.02)
    assert float(start.mean[0]) == pytest.approx(middle, abs=0.02)
    beside = runs.sides(parse({**keys, "n": 100}), ("points", "gaussian")).members[1]
    assert np.ravel(beside.spec.mean)[0] == pytest.approx(middle, abs=0.02)


def test_kernel_density_estimate_matches_scipy(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """SciPy's kernel density of the tokens, shrunk to keep the moments."""
    x = rng.normal(size=(300, 2)) @ [[1.0, 0.4], [0.0, 0.5]]
    weights = rng.uniform(size=300)
    np.save(tmp_path / "x.npy", x)
    tokens = {"init": f"@{tmp_path}/x.npy", "weights": weights.tolist()}
    spec = {**GRID, **tokens, "bandwidth": 0.3, "cells": 64}
    grid = runs.start(parse(spec)).members[0].measure
    assert isinstance(grid, Grid)
    mean = np.average(x, axis=0, weights=weights)
    covariance = np.cov(x.T, aweights=weights, bias=True)
    np.testing.assert_allclose(np.asarray(grid.covariance), covariance, atol=1e-4)
    centres = mean + (x - mean) / np.sqrt(1 + 0.3**2)
    ratio = np.linalg.det(covariance) / np.linalg.det(np.cov(x.T, aweights=weights))
    kernel = gaussian_kde(centres.T, 0.3 * ratio**0.25, weights)
    middles = [(np.asarray(e)[1:] + np.asarray(e)[:-1]) / 2 for e in grid.edges]
    xi = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, 2)
    places = np.asarray(grid.state.origin) + xi @ np.asarray(grid.state.axes).T
    actual, exact = np.asarray(grid.density).ravel(), kernel(places.T)
    # An average over a cell is the value at its middle to second order.
    assert np.max(np.abs(actual - exact)) < 0.2 * np.max(exact)
    assert np.sum(np.abs(actual - exact)) < 0.05 * np.sum(exact)


ENDINGS = {
    "collapse": ("--A=-1", "--domain=-16,16", "--t", "5"),
    "escape": ("--A=1", "--domain=-6,6", "--t", "1"),
}


@pytest.mark.slow_cases("collapse")
@pytest.mark.parametrize("name", list(ENDINGS))
def test_collapse_and_escape_are_results_with_a_reason(cli: Command, name: str) -> None:
    args = ("--measure=grid", "--cells=80", "--frames=5", "--segment=2", "--out=run")
    result = cli("simulate", *args, *ENDINGS[name], "--json")
    report = json.loads(result.out)
    assert (result.code, report["ending"]) == (0, name)
    assert report["t"] < 5
    record = json.loads(cli("show", "run", "--json").out)
    assert (record["ending"], record["t"]) == (name, report["t"])
    assert record["spec"]["box"] == "fixed"


def test_a_plan_is_printed_without_a_step(cli: Command) -> None:
    args = ("simulate", "--measure", "grid", "--d", "2", "--dry-run", "--json")
    plan = json.loads(cli(*args).out)
    assert (plan["cells"], plan["n"], plan["d"]) == (128 * 128, 0, 2)
    assert plan["reduction"] == "separable"
    assert plan["disk"] >= 101 * 128 * 128 * 8
    with pytest.raises(ResourceError, match="cells fit"):
        runs.start(parse({"measure": "grid", "cells": 10**9}))


def test_draws_share_cells_and_differ_in_laws(tmp_path: Path) -> None:
    spec = {**LINE, "init": "mixture", "draws": 2, "A": "normal"}
    result = runs.execute(parse(spec), out=tmp_path / "run")
    data = runs.dataset(tmp_path / "run")
    assert data["density"].dims == ("run", "time", "cell_x")
    first, second = (covariance_of(mu) for mu in result.measures)
    assert abs(first - second) > 1e-3
    assert data["edges_x"].shape == (81,)


def covariance_of(mu: object) -> float:
    assert isinstance(mu, Grid)
    return float(mu.covariance[0, 0])


@pytest.mark.slow
def test_a_sweep_of_densities_reports_endings_and_variances(
    cli: Command, tmp_path: Path
) -> None:
    args = ("--measure=grid", "--cells=80", "--t=1", "--frames=5", "--domain=-6,6")
    args += ("--segment=2",)
    result = cli("sweep", *args, "--over", "A=-1|-0.5|1", "--out", "sweep", "--json")
    assert result.code == 0, result.err
    table = (tmp_path / "sweep" / "table.csv").read_text().splitlines()
    rows = [
        dict(zip(table[0].split(","), r.split(","), strict=True)) for r in table[1:]
    ]
    assert [row["ending"] for row in rows] == ["finished", "finished", "escape"]
    assert float(rows[0]["cov00"]) == pytest.approx(1 / 3, abs=2e-3)
    assert float(rows[1]["cov00"]) == pytest.approx(1 / 2, abs=2e-3)
