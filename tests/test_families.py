"""Families of starts with a short name, and their runs."""

from pathlib import Path

import jax
import numpy as np
import pytest
from jaxtyping import Array

from meanfield import runs
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.flows._ensemble import _block  # pyright: ignore[reportPrivateUsage]
from meanfield.measures.families import family
from meanfield.spec import parse
from tests.helpers import assert_close

GRID = {"measure": "gaussian", "A": 1.0, "V": 1.0, "starts": "grid:6", "t": 1.0}


@pytest.mark.parametrize(
    ("name", "count"),
    [("grid:10:0.5", 100), ("grid:20", 276), ("grid:30", 648), ("grid:40", 1184)],
)
def test_grids_hold_the_published_numbers_of_starts(name: str, count: int, key: Array):
    Sigma = np.asarray(family(name, 2, key=key))
    assert Sigma.shape == (count, 2, 2)
    np.testing.assert_allclose(np.trace(Sigma, axis1=1, axis2=2), 1)
    assert np.linalg.eigvalsh(Sigma).min() > 0


@pytest.mark.parametrize(("side", "count"), [(11, 69), (21, 305), (41, 1245)])
def test_boundary_matrices_are_not_inside(side: int, count: int, key: Array):
    """By integers: a point of the grid is inside if `i² + j² < n²`."""
    half = (side - 1) // 2
    i = np.arange(-half, half + 1)
    assert np.sum(i[:, None] ** 2 + i[None, :] ** 2 < half**2) == count
    assert family(f"grid:{side}", 2, key=key).shape[0] == count


def test_random_starts_have_their_trace_and_any_dimension(key: Array):
    Sigma = np.asarray(family("random:50:3", 4, key=key))
    assert Sigma.shape == (50, 4, 4)
    np.testing.assert_allclose(np.trace(Sigma, axis1=1, axis2=2), 3)
    assert np.linalg.eigvalsh(Sigma).min() > 0
    # E[GGᵀ] / trace is isotropic: off-diagonal means within four standard errors of 0
    off_diagonal = Sigma[:, 0, 1]
    assert abs(off_diagonal.mean()) < 4 * off_diagonal.std(ddof=1) / np.sqrt(50)


@pytest.mark.parametrize(
    ("name", "d", "message"),
    [
        ("grid", 2, r"grid:COUNT\[:WIDTH\]"),
        ("grid:x", 2, r"grid:COUNT"),
        ("grid:0", 2, r"grid:COUNT"),
        ("grid:3:-1", 2, r"grid:COUNT"),
        ("grid:3:1:1", 2, r"grid:COUNT"),
        ("grid:9", 3, "needs dimension 2"),
        ("grid:2:0.9", 2, "positive definite"),
        ("grid:1500", 2, "at most 100000 members"),
        ("grid:400", 2, "at most 100000 members"),
        ("random:100001", 3, "at most 100000 members"),
        ("random:3:inf", 3, r"grid:COUNT"),
        ("random:3", 1, "`d` must be at least 2"),
    ],
)
def test_bad_families_are_explained(name: str, d: int, message: str, key: Array):
    with pytest.raises(InvalidInputError, match=message):
        family(name, d, key=key)


def test_an_unknown_family_is_named(key: Array):
    with pytest.raises(UnknownNameError, match="did you mean `grid`"):
        family("gird:3", 2, key=key)


@pytest.mark.slow
def test_each_start_has_its_own_ending(tmp_path: Path):
    """`t* = 1 / (2 largest eigenvalue)` where that is before the end."""
    result = runs.execute(parse({**GRID, "t": 0.7}), out=tmp_path / "r.zarr")
    Sigma = np.asarray(family("grid:6", 2, key=jax.random.key(0)))
    exact = 1 / (2 * np.linalg.eigvalsh(Sigma)[:, -1])
    endings = np.where(exact < 0.7, "blow-up", "finished").tolist()
    assert [outcome.name for outcome in result.outcomes] == endings
    assert len(set(endings)) == 2
    data = runs.dataset(tmp_path / "r.zarr")
    assert data.sizes["run"] == len(exact)
    stars = data["t_star"].values
    np.testing.assert_allclose(stars[exact < 0.7], exact[exact < 0.7], rtol=1e-8)
    assert np.all(np.isnan(stars[exact >= 0.7]))


def test_an_interrupted_family_resumes_to_the_same_bytes(tmp_path: Path):
    spec = parse({**GRID, "frames": 21, "segment": 5})

    def stop(progress: runs.Progress) -> None:
        if progress.share > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "cut.zarr", report=stop)
    runs.resume(tmp_path / "cut.zarr")
    runs.execute(spec, out=tmp_path / "whole.zarr")
    cut, whole = (runs.dataset(tmp_path / f"{n}.zarr") for n in ("cut", "whole"))
    for name in ("factor", "time", "status", "t_star", "stop_time"):
        np.testing.assert_array_equal(cut[name], whole[name])


@pytest.mark.parametrize("spacing", ["even", "log", "both"])
@pytest.mark.parametrize("frames", [2, 3, 4, 5, 100, 101])
def test_the_number_of_frames_is_as_requested(spacing: str, frames: int):
    result = runs.start(parse({"t": 3.0, "frames": frames, "spacing": spacing}))
    assert len(result.ts) == frames
    assert (result.ts[0], result.ts[-1]) == (0, 3)


def test_log_frames_are_geometric():
    ts = runs.start(parse({"t": 2.0, "frames": 50, "spacing": "log"})).ts
    ratios = ts[2:] / ts[1:-1]
    assert_close(ratios, np.full_like(ratios, ratios[0]))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"starts": "grid:5"}, "add `measure = gaussian`"),
        ({**GRID, "draws": 2}, "sets the initial measures: leave out `draws`"),
        ({**GRID, "cov": 2.0}, "sets the initial measures: leave out `cov`"),
        ({"dt": 0.1, "spacing": "log"}, "leave out `spacing`"),
    ],
)
def test_keys_without_effect_are_rejected(keys: dict, message: str):
    with pytest.raises(InvalidInputError, match=message):
        parse(keys)


@pytest.mark.slow
def test_a_family_is_compiled_once_while_members_end():
    """Members end in different segments; all segments share one program."""
    before = _block.programs
    spec = parse({**GRID, "starts": "grid:7", "frames": 21, "segment": 4, "t": 1.0})
    result = runs.execute(spec)
    assert len({outcome.time for outcome in result.outcomes}) > 3
    after = _block.programs
    assert after == before + 1
