"""Datasets of a store read lazily, and the right numbers."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from meanfield.errors import StoreError
from meanfield.spec import parse
from meanfield.storage import RunStore, kinds

FRAMES, TOKENS, DIMENSION = 11, 5, 3
X = np.random.default_rng(5).normal(size=(2, FRAMES, TOKENS, DIMENSION))
SEGMENTS = (0, 4, 5, 11)

KEYS: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "a frame": lambda x: x.isel(time=7),
    "the last": lambda x: x.isel(time=-1),
    "some of two segments": lambda x: x.isel(time=slice(2, 8, 3)),
    "backwards": lambda x: x.isel(time=slice(None, None, -2)),
    "out of order": lambda x: x.isel(time=[9, 0, 9, 4]),
    "where it holds": lambda x: x.isel(time=x["time"].values > 3.5),
    "along all axes": lambda x: x.isel(run=1, time=[3, 6], token=[4, 0], coord=2),
    "none": lambda x: x.isel(time=slice(3, 3), token=0),
    "pairs": lambda x: x.isel(
        time=xr.DataArray([0, 10], dims="p"), token=xr.DataArray([1, 2], dims="p")
    ),
}


@pytest.fixture
def stored_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three segments of two runs, the longest split into chunks of four frames."""
    monkeypatch.setattr("meanfield.storage._segments._CHUNK", 4 * X[:, 0].nbytes)
    store = RunStore.create(tmp_path / "run", attrs={}, static={})
    for a, b in pairwise(SEGMENTS):
        store.append({"time": np.arange(a, b) / 2.0, "x": X[:, a:b]}, {})
    store.close()
    return tmp_path / "run"


def test_a_deleted_store_does_not_read_as_zeros(stored_run: Path):
    """Nor does a new store of the same name, once the first was read."""
    data = RunStore.open(stored_run).dataset()
    assert data["x"].isel(time=6).values.any()
    stored_run.rename(stored_run.with_name("away"))
    with pytest.raises(StoreError, match="has changed since it was opened"):
        data["x"].isel(time=9).load()
    shutil.copytree(stored_run.with_name("away"), stored_run)
    with pytest.raises(StoreError, match="has changed since it was opened"):
        data["x"].isel(time=9).load()


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_slices_match_the_whole_dataset(
    stored_run: Path, key: Callable[[xr.DataArray], xr.DataArray]
) -> None:
    times = np.arange(FRAMES) / 2
    whole = xr.DataArray(X, {"time": times}, ("run", "time", "token", "coord"))
    part = key(RunStore.open(stored_run).dataset()["x"])
    xr.testing.assert_identical(part.drop_attrs(), key(whole.rename("x")))


def test_segments_are_read_lazily(stored_run: Path) -> None:
    """Damage elsewhere is not noticed."""
    shutil.rmtree(stored_run / "data/segments/00002/x")
    data = RunStore.open(stored_run).dataset()
    np.testing.assert_array_equal(data["x"].isel(time=[0, 4]), X[:, [0, 4]])
    with pytest.raises(StoreError, match="00002` is damaged"):
        data["x"].isel(time=5).load()


def test_derived_variables_keep_their_attributes(stored_run: Path):
    double_x = lambda data: {"twice": (2 * data["x"]).assign_attrs(units="1")}
    variable = RunStore.open(stored_run).dataset(double_x)["twice"]
    assert variable.attrs == {"units": "1"}
    np.testing.assert_array_equal(variable, 2 * X)


def test_densities_are_derived_for_requested_frames(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """In boxes that rotate and stretch: masses over the areas of cells."""
    e, f = np.sort(rng.normal(size=4)), np.sort(rng.normal(size=6))
    mass, axes = rng.uniform(size=(4, 3, 5)), rng.normal(size=(4, 2, 2))
    store = RunStore.create(
        tmp_path / "run",
        attrs={},
        static={"edges_x": e, "edges_y": f},
        dims={"mass": ("time", "cell_x", "cell_y")},
    )
    store.append({"time": np.arange(4.0), "mass": mass, "axes": axes}, {})
    density = store.dataset(kinds["grid"].derive)["density"]
    areas = np.outer(np.diff(e), np.diff(f)) * abs(np.linalg.det(axes))[:, None, None]
    expected = mass / areas
    np.testing.assert_allclose(density.isel(time=[3, 0], cell_x=1), expected[[3, 0], 1])
    np.testing.assert_allclose(density.isel(time=2), expected[2])
    np.testing.assert_allclose(density, expected)


PEAK = r"""
import re, sys
from pathlib import Path
import meanfield
data = meanfield.open(sys.argv[1])
bytes_stored = data["x"].nbytes
first, last = data["x"].isel(time=0).values, data["x"].isel(time=-1).values
some = data["x"].isel(token=7).values
assert (first[7] == some[0]).all() and (last[7] == some[-1]).all()
assert "jax" not in sys.modules
# What `getrusage` says of a new process may be the peak of its parent.
peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
print(bytes_stored, 1024 * int(peak[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")
def test_a_run_need_not_fit_into_memory(tmp_path: Path) -> None:
    """Two frames and the path of a token, of 640 MB, need the memory of a chunk."""
    n, d, frames = 100_000, 2, 80
    keys = {"n": n, "d": d, "frames": 5 * frames, "A": -1.0}
    attrs = {"spec": parse(keys).as_json(), "kind": "points"}
    static = {"weight": np.full(n, 1 / n), "position": np.arange(n) / n}
    with RunStore.create(tmp_path / "run", attrs=attrs, static=static) as store:
        for i in range(5):
            x = np.random.default_rng(i).normal(size=(frames, n, d))
            store.append(
                {"time": frames * i + np.arange(frames, dtype=float), "x": x}, {}
            )
    code = [sys.executable, "-c", PEAK, str(tmp_path / "run")]
    result = subprocess.run(code, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    n_bytes, peak = map(int, result.stdout.split())
    assert n_bytes == 640_000_000
    assert peak < n_bytes / 2
