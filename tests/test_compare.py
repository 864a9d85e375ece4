"""Comparisons of representations: members, gaps, times and reasons."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from numpy.random import Generator
from scipy.stats import chi2, norm

import meanfield
from meanfield import runs
from meanfield.cli.terminal._output import finite
from meanfield.errors import StoreError
from meanfield.plotting import draw_comparison, save
from meanfield.runs.comparisons._normality import normality
from meanfield.runs.comparisons._record import RECORD
from meanfield.spec import parse
from tests.conftest import CommandResult

Run = Callable[..., CommandResult]
BASE = {"A": -1.0, "V": 1.0, "t": 0.5, "n": 200, "frames": 3, "rtol": 1e-5}


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> runs.Comparison:
    """A comparison of a Gaussian and a grid under softmax."""
    folder = tmp_path_factory.mktemp("softmax")
    return runs.compare(parse({**BASE, "mean": 0.5}), ("points", "gaussian"), folder)


@pytest.fixture(scope="module")
def three_pairs(softmax: runs.Comparison) -> runs.Comparison:
    """A comparison with two more pairs of other numbers; a density compiles slowly."""
    (gap,) = softmax.gaps
    more_pairs = (
        dataclasses.replace(gap, pair=(name, "grid"), mean=i * gap.mean)
        for i, name in enumerate(gap.pair, 2)
    )
    return dataclasses.replace(softmax, gaps=(gap, *more_pairs))


@pytest.mark.slow
def test_gaussian_and_grid_follow_the_closed_form(tmp_path: Path) -> None:
    """Σ' = -2Σ² and α' = α - Σα, so Σ = 1/(1 + 2t) and α = ½ eᵗ (1 + 2t)^-½."""
    spec = parse({**BASE, "mean": 0.5, "measure": "gaussian"})
    softmax = runs.compare(spec, ("points", "gaussian", "grid"), tmp_path)
    assert len(softmax.gaps) == 3
    t = softmax.side_runs["grid"].times
    for measure, tolerance in (("gaussian", 1e-4), ("grid", 1e-4)):
        moments = [runs.moments_of(mu) for mu in softmax.side_runs[measure].measures]
        means, variances = (np.array([np.ravel(m)[0] for m in part])
                            for part in zip(*moments, strict=True))  # fmt: skip
        np.testing.assert_allclose(variances, 1 / (1 + 2 * t), rtol=tolerance)
        exact = 0.5 * np.exp(t) / np.sqrt(1 + 2 * t)
        np.testing.assert_allclose(means, exact, rtol=tolerance)
    last = softmax.gaps[-1]
    assert last.pair == ("gaussian", "grid")
    assert last.separation is None
    assert last.distance_method == "quantiles"


def test_gaps_match_numpy_on_the_states(softmax: runs.Comparison) -> None:
    gap = softmax.gaps[0]
    x = np.asarray(softmax.side_runs["points"].measures[-1].coordinates)[:, 0]
    mean, factor = map(
        np.asarray, softmax.side_runs["gaussian"].measures[-1].coordinates
    )
    s = float(factor[0, 0] ** 2)
    assert gap.mean[-1] == pytest.approx(abs(x.mean() - mean[0]) / s**0.5)
    assert gap.covariance[-1] == pytest.approx(abs(x.var() - s) / s)
    assert gap.tolerances[0] == pytest.approx(3 / 200**0.5)
    assert gap.tolerances[1] == pytest.approx(3 * (2 / 200) ** 0.5)
    assert "200 tokens begin with a sampling error of the order of" in gap.verdict
    largest_gap = max(float(gap.mean[0]), float(gap.covariance[0]))
    assert f"(here {largest_gap:.2g})" in gap.verdict


def test_the_picture_draws_every_pair(
    three_pairs: runs.Comparison, tmp_path: Path
) -> None:
    t = np.array([0.0, 1.0])
    x = np.random.default_rng(0).normal(size=(2, 50, 2))
    tokens = xr.Dataset(
        {"x": (("time", "token", "coord"), x),
         "weight": ("token", np.full(50, 0.02))},
        {"time": t}, {"kind": "points"},
    )  # fmt: skip
    gaussian = xr.Dataset(
        {"mean": (("time", "coord"), np.zeros((2, 2))),
         "factor": (("time", "coord", "rank"), np.stack([np.eye(2), 2 * np.eye(2)]))},
        {"time": t}, {"kind": "gaussian"},
    )  # fmt: skip
    figure = draw_comparison(
        three_pairs.dataset(), {"points": tokens, "gaussian": gaussian}
    )
    assert isinstance(figure, Figure)
    assert [len(axes.lines) > 0 for axes in figure.axes[:3]] == [True] * 3
    assert all(path.stat().st_size > 5_000 for path in save(figure, tmp_path / "both"))


@pytest.mark.slow
def test_compare_shows_a_closure_departing_from_the_density(
    cli: Run, tmp_path: Path
) -> None:
    """Sigmoid attention: the Gaussian is projected, with a note."""
    result = cli(
        "compare", "--attention", "sigmoid", "--A=-1", "--V", "1", "--t", "1",
        "--n", "100", "--frames", "3", "--cells", "100", "--out", "both", "--json",
        "--measures", "gaussian,grid",
    )  # fmt: skip
    assert result.code == 0
    actual = json.loads(result.out)
    assert "approximation" in actual["measures"]["gaussian"]["label"]
    pair = actual["pairs"][0]
    assert pair["separation"]["time"] > 0
    assert "the closure is an approximation" in pair["verdict"]
    assert actual["measures"]["grid"]["outflow"] < 1e-6
    record = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert record["pairs"] == actual["pairs"]
    assert (tmp_path / "both" / "comparison.png").stat().st_size > 10_000
    assert (tmp_path / "both" / "gaussian.zarr" / "commit.json").exists()


def test_representations_that_reject_the_spec_are_skipped_with_a_note() -> None:
    spec = parse({**BASE, "d": 3})
    actual = runs.sides(spec, ("points", "gaussian", "grid"))
    assert [side.measure for side in actual.members] == ["points", "gaussian"]
    assert len(actual.omitted) == 1
    assert "grid is left out: A grid must have one or two dim" in actual.omitted[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--measures", "points"), "points, gaussian, grid, circle and zonal"),
        (("--measures", "points,densities"), "points,densities"),
        (("--measures", "points,gaussian", "--draws", "3"), "leave out `draws`"),
        (("--d", "3", "--measures", "gaussian,grid"), "needs two measures"),
        (("--mask", "causal", "--measures", "points,gaussian"), "gaussian is left out"),
        (("--measures", "points,gaussian", "--cells", "9"), "`cells` does not apply"),
        (("--cells", "nine"), "must be a whole number of cells"),
        (("--projected",), "leave out `projected`"),
        (("--starts", "grid:3"), "leave out `starts`"),
    ],
)
def test_incomparable_representations_are_rejected_in_one_line(
    cli: Run, options: tuple[str, ...], message: str
) -> None:
    result = cli("compare", "--A=-1", *options)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_starts_share_a_law_or_report_the_shared_moments() -> None:
    """A ball of variance 1/3 on the line, scaled by 4; tokens on a circle."""
    actual = runs.sides(
        parse({**BASE, "init": "ball", "cov": 4.0}), ("points", "gaussian")
    )
    gaussian_side = next(side for side in actual.members if side.measure == "gaussian")
    assert np.ravel(gaussian_side.spec.cov)[0] == pytest.approx(4 / 3)
    assert gaussian_side.has_law_start
    assert not gaussian_side.is_exact
    circle = parse({**BASE, "init": "sphere", "d": 2})
    gaussian_side = runs.sides(circle, ("points", "gaussian")).members[1]
    assert not gaussian_side.has_law_start
    assert "moments of the 200 tokens" in gaussian_side.notes[0]


def test_each_side_has_the_keys_that_it_knows() -> None:
    shared = parse({**BASE, "solver": "dopri8"})
    actual = runs.sides(shared, ("points", "grid"), {"cells": 60, "cfl": 0.5})
    tokens, density = (side.spec for side in actual.members)
    assert (tokens.solver, density.cells, density.cfl) == ("dopri8", 60, 0.5)
    assert actual.members[1].notes == (
        "chooses steps by its own rule: no solver, rtol",
    )


@pytest.mark.slow
def test_masked_tokens_and_layers_keep_their_positions(tmp_path: Path) -> None:
    spec = parse(
        {**BASE, "mask": "causal", "measure": "grid", "cells": 60, "positions": 4,
         "rtol": None, "t": 0.2, "frames": 2}
    )  # fmt: skip
    actual = runs.compare(spec, ("points", "grid"), tmp_path)
    assert actual.gaps[0].distance_method == "conditional, quantiles"
    assert np.all(actual.gaps[0].distance < 0.5)


def test_rank_attentions_are_compared_with_equal_steps() -> None:
    """They reject the others' tolerance; a Gaussian with A = I reports its note."""
    esp = {"attention": "esp", "d": 2, "n": 9, "t": 0.1}
    pair = ("points", "gaussian")
    points, gaussian = runs.sides(parse({**esp, "A": -1.0}), pair).members
    assert (points.spec.rtol, gaussian.spec.rtol) == (None, 1e-6)
    assert "O(dt)" in points.reasons[0]
    three = runs.sides(parse({**esp, "A": -1.0}), (*pair, "grid"))
    assert len(three.members) == 2
    assert (
        "grid is left out: Attention by ranks supports densities on a line only"
        in three.omitted[0]
    )
    assert gaussian.reasons == ()
    for A in (1.0, [[2.0, 0.0], [0.0, -1.0]]):  # on one of two slices
        side = runs.sides(parse({**esp, "A": A}), pair).members[1]
        assert "is matched to itself" in side.reasons[0]


def test_a_stored_comparison_opens_as_its_gaps(
    three_pairs: runs.Comparison, tmp_path: Path
) -> None:
    text = json.dumps(finite(three_pairs.as_json()))
    (tmp_path / "comparison.json").write_text(text)
    gaps = meanfield.open(tmp_path)
    assert gaps["mean_gap"].dims == ("pair", "time")
    for row, gap in zip(gaps["mean_gap"], three_pairs.gaps, strict=True):
        np.testing.assert_array_equal(row.sel(time=gap.times), gap.mean)
    xr.testing.assert_identical(gaps.drop_attrs(), three_pairs.dataset().drop_attrs())
    assert set(gaps.attrs["spec"]) == set(three_pairs.side_runs)
    for bad_text in (text[:-20], "[]", '{"spec": {}, "pairs": [{}]}'):
        (tmp_path / "comparison.json").write_text(bad_text)
        with pytest.raises(StoreError, match=r"comparison\.json` is damaged"):
            meanfield.open(tmp_path)


def test_a_movie_of_a_comparison_is_rejected(cli: Run, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    (folder / "points.zarr").mkdir(parents=True)
    (folder / RECORD).write_text("{}")
    result = cli("animate", str(folder))
    assert result.code == 2
    assert f"draw it with `meanfield report {folder}`" in result.err
    assert f"`{folder / 'points.zarr'}`" in result.err


def test_the_normality_test_is_mardias(rng: Generator) -> None:
    """Mardia's sums over pairs, with SciPy's laws; only Gaussian samples pass."""
    x = rng.normal(size=(60, 2)) @ np.array([[1.0, 0.3], [0.0, 0.5]])
    residuals = x - x.mean(0)
    products = residuals @ np.linalg.solve(residuals.T @ residuals / 60, residuals.T)
    skewness, kurtosis = np.mean(products**3), np.mean(np.diag(products) ** 2)
    tails = (
        chi2(4).sf(60 * skewness / 6),
        2 * norm.sf(abs(kurtosis - 8) * (60 / 64) ** 0.5),
    )
    assert normality(x) == pytest.approx(2 * min(tails), rel=1e-9)
    assert normality(x) > 0.01
    assert normality(rng.uniform(size=(500, 2))) < 1e-6
    assert np.isnan(normality(np.c_[x, x @ [1.0, 2.0]]))  # in a plane
    assert np.isnan(normality(x[:9]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        ("normal", "pass as draws from a Gaussian"),
        ("uniform", "the start is not Gaussian"),
    ],
)
def test_tokens_of_a_file_are_tested_for_normality(
    cli: Run, tmp_path: Path, rng: Generator, draw: str, reason: str
) -> None:
    np.save(tmp_path / "x.npy", getattr(rng, draw)(size=(500, 2)))
    measures = ("--measures", "points,gaussian", "--frames", "3")
    result = cli("compare", "--init", "@x.npy", "--A=-1", "--t", "1", *measures)
    assert reason in result.out + result.err
