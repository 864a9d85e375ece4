"""Distances between stored runs: closed forms, POT, common times, the command."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import ot
import pytest
from conftest import CommandResult

import meanfield
from meanfield import plotting, runs
from meanfield.errors import InvalidInputError, StoreError
from meanfield.runs.comparisons import _distances
from meanfield.spec import parse

KEYS = {"A": -1.0, "V": 0.5, "t": 0.4, "frames": 5}
CLOUD = {**KEYS, "n": 12, "d": 2}
Write = Callable[..., dict[str, Path]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes runs with these keys; returns their folders by label."""

    def write_runs(**keys: dict[str, object]) -> dict[str, Path]:
        paths = {label: tmp_path / f"{label}.zarr" for label in keys}
        for label, path in paths.items():
            runs.execute(parse(keys[label]), out=path)
        return paths

    return write_runs


def test_distances_of_tokens_are_those_of_pot(write: Write) -> None:
    paths = write(a=CLOUD, b={**CLOUD, "attention": "l2", "seed": 1})
    gaps = runs.distances(paths).isel(pair=0)
    x, y = (meanfield.open(path)["x"].values for path in paths.values())
    costs = ((x[:, :, None] - y[:, None]) ** 2).sum(axis=-1)
    p = np.full(12, 1 / 12)
    squares = np.array([ot.emd2(p, p, cost) for cost in costs], float)
    np.testing.assert_allclose(gaps["wasserstein"] ** 2, squares, rtol=1e-9)


def test_a_translate_has_the_distance_of_the_translation(write: Write) -> None:
    start = {**CLOUD, "V": 0.0}
    gaps = runs.distances(write(a=start, b={**start, "mean": [3.0, 4.0]}))
    for name in ("wasserstein", "bures"):
        np.testing.assert_allclose(gaps[name], 5, rtol=1e-9)
    np.testing.assert_allclose(gaps["sinkhorn_divergence"], 25 / 2, rtol=1e-9)
    assert abs(gaps["sliced"] - 5).max() < 4 * gaps["sliced_error"].max()


def test_gaussians_have_closed_forms(write: Write) -> None:
    start = {**KEYS, "measure": "gaussian", "V": 0.0, "d": 2}
    paths = write(a=start, b={**start, "mean": [3.0, 4.0], "cov": 4.0})
    gaps = runs.distances(paths)
    expected = np.sqrt(25 + 2)  # the distance of means 5, and twice (2 - 1)²
    for name in ("wasserstein", "bures"):
        np.testing.assert_allclose(gaps[name], expected, rtol=1e-12)
    assert gaps.attrs["methods"] == ["closed form"]


def test_missing_divergences_have_a_reason(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaussian = {**KEYS, "d": 2, "measure": "gaussian"}
    paths = write(a=CLOUD, b={**CLOUD, "attention": "l2"}, c=gaussian)
    tokens = {name: paths[name] for name in "ab"}
    mixed = runs.distances({name: paths[name] for name in "ac"})
    assert runs.distances(tokens).attrs["notes"] == []
    monkeypatch.setattr(_distances, "MAX_ATOMS", 11)
    many = runs.distances(tokens)
    monkeypatch.setattr(_distances, "MAX_ATOMS", 12)
    monkeypatch.setattr(_distances, "_divergence", lambda *_: np.nan)
    endless = runs.distances(tokens)
    words = "a Gaussian and tokens", "more than 11 atoms", "does not converge"
    for gaps, text in zip((mixed, many, endless), words, strict=True):
        assert np.isnan(gaps["sinkhorn_divergence"]).all()
        assert np.isfinite(gaps["wasserstein"]).all()
        assert text in gaps.attrs["notes"][0]
        figure = plotting.draw_distances(gaps)
        assert len(figure.axes) == 1
        assert text in " ".join(figure.get_supxlabel().split())


@pytest.mark.slow
def test_single_precision_is_compared_with_double(write: Write) -> None:
    """Times differ by rounding, and so do the tokens."""
    start = {"A": -1.0, "V": 0.5, "times": [0.1, 0.3], "measure": "gaussian"}
    gaps = runs.distances(write(a=start, b={**start, "precision": "single"}))
    assert gaps.sizes["time"] == 2
    assert np.all(abs(gaps["sinkhorn_divergence"]) < 1e-6)
    cloud = {"A": -1.0, "V": 0.0, "n": 6, "times": [0.1, 0.3], "precision": "single"}
    moved = runs.distances(write(c=cloud, d={**cloud, "precision": "double"}))
    assert np.isfinite(moved["sinkhorn_divergence"]).all()


def test_only_common_times_are_compared(write: Write) -> None:
    paths = write(a=CLOUD, b={**CLOUD, "t": 0.2, "frames": 3})
    np.testing.assert_allclose(runs.distances(paths)["time"], [0, 0.1, 0.2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 2}, "holds 2 flows"),
        ({"d": 3}, "the same dimension"),
    ],
)
def test_runs_that_cannot_be_compared(
    write: Write, change: dict[str, object], message: str
) -> None:
    paths = write(a=CLOUD, b={**CLOUD, **change})
    with pytest.raises(InvalidInputError, match=message):
        runs.distances(paths)


def test_the_command_writes_numbers_that_open(
    cli: Callable[..., CommandResult], write: Write, tmp_path: Path
) -> None:
    paths = write(a=CLOUD, b={**CLOUD, "attention": "l2"})
    folders = [str(path) for path in paths.values()]
    result = cli("compare", *folders, "--out", "gaps")
    assert result.code == 0, result.err
    assert "softmax – l2" in result.out
    stored = meanfield.open(tmp_path / "gaps")
    computed = runs.distances(dict(zip(("softmax", "l2"), paths.values(), strict=True)))
    assert stored.identical(computed)
    assert (tmp_path / "gaps" / "distances.pdf").exists()
    printed = json.loads(cli("compare", *folders, "--json").out)
    assert printed["data_vars"]["wasserstein"]["data"][0][0] == 0
    again = cli("compare", *folders, "--out", "gaps")
    assert (again.code, again.out) == (2, "")
    assert "`gaps` has distances, which are not replaced" in again.err
    (tmp_path / "gaps" / "distances.json").write_text("{}")
    with pytest.raises(StoreError):
        meanfield.open(tmp_path / "gaps")


def test_runs_without_a_common_time_cannot_be_compared(write: Write) -> None:
    cloud = {"A": -1.0, "n": 5}
    paths = write(a={**cloud, "times": [0.1, 0.2]}, b={**cloud, "times": [0.3, 0.4]})
    with pytest.raises(InvalidInputError, match="a frame at the same time; got a from"):
        runs.distances(paths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--A", "2"), "Leave out `--A`"),
        (("--measures", "points,grid"), "Leave out `--measures`"),
        (("--preset", "collapse"), "Leave out `--preset`"),
    ],
)
def test_keys_of_stored_runs_cannot_be_changed(
    cli: Callable[..., CommandResult],
    write: Write,
    options: tuple[str, str],
    message: str,
) -> None:
    paths = write(a=CLOUD, b={**CLOUD, "attention": "l2"})
    result = cli("compare", *map(str, paths.values()), *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_picture_leaves_out_rounding(write: Write) -> None:
    gaps = runs.distances(write(a=CLOUD, b={**CLOUD, "attention": "l2"}))
    growth = np.geomspace(1e-4, 1, gaps.sizes["time"])
    growing = gaps.assign(wasserstein=(("pair", "time"), growth[None]))
    rounded = growing.assign(bures=growing["bures"].where(gaps["time"] > 0, 1e-17))
    top = plotting.draw_distances(rounded).axes[0]
    heights = np.concatenate([np.asarray(line.get_ydata()) for line in top.lines])
    assert top.get_yscale() == "log"
    assert np.nanmin(heights) > 1e-12
    assert np.isnan(heights).sum() == 2  # sliced and of the moments, at the start
