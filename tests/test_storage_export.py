"""Runs exported to files."""

import copy
import csv
import json
import pickle
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from storage_run import ATTRS, D, N, has_same_bytes, new_store

from meanfield.errors import InvalidInputError, ResourceError
from meanfield.storage import RunStore, export, kinds, table_bytes
from meanfield.storage._stored_frames import StoredFrames


@pytest.fixture
def run(truth: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be changed."""
    return Path(shutil.copytree(truth, tmp_path / "run"))


@pytest.fixture
def gaussian(tmp_path: Path) -> RunStore:
    rng = np.random.default_rng(1)
    frames = {"mean": rng.normal(size=(4, D)), "factor": rng.normal(size=(4, D, 2))}
    store = RunStore.create(tmp_path / "gaussian", attrs=ATTRS, static={})
    store.append({"time": np.arange(4.0) / 3, **frames}, {})
    return store


def table(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    return dict(zip(header, np.array(rows, dtype=float).T, strict=True))


def test_npz_holds_the_whole_dataset(run: Path, tmp_path: Path) -> None:
    dataset = RunStore.open(run).dataset()
    export(dataset, tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        attrs = json.loads(str(file["attrs"]))
        for name, variable in dataset.variables.items():
            assert has_same_bytes(file[str(name)], variable.values)
            assert tuple(attrs["variables"][name]["dims"]) == variable.dims
        assert set(file) == {*map(str, dataset.variables), "attrs"}
    assert attrs["spec"] == ATTRS["spec"]


def test_netcdf_round_trips_through_xarray(run: Path, tmp_path: Path) -> None:
    """Its attributes are texts: `to_netcdf` rejects the dictionaries of a dataset."""
    dataset = RunStore.open(run).dataset()
    with pytest.raises(TypeError, match="attr"):
        dataset.to_netcdf(tmp_path / "plain.nc", engine="scipy")
    export(dataset, tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="scipy") as restored:
        assert set(restored.variables) == set(dataset.variables)
        for name, variable in dataset.variables.items():
            np.testing.assert_array_equal(restored[name].values, variable.values)
        assert json.loads(restored.attrs["spec"]) == ATTRS["spec"]
    assert dataset.attrs["spec"] == ATTRS["spec"]  # unchanged


def test_an_open_dataset_is_copied_and_closed(run: Path) -> None:
    """By pickles, deep copies and tables; frames are readable after `close` too."""
    dataset = RunStore.open(run).dataset()
    for clone in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert clone.identical(dataset)
    x = dataset["x"].values
    column = dataset["x"].to_dataframe()["x"].to_numpy()
    assert has_same_bytes(column.reshape(x.shape), x)
    last = float(dataset["time"][-1])
    assert has_same_bytes(dataset["x"].sel(time=last, method="nearest").values, x[-1])
    with RunStore.open(run).dataset() as closed:
        pass
    assert has_same_bytes(closed["x"].values, x)


def test_csv_of_points_has_a_row_for_each_token_of_each_frame(
    run: Path, tmp_path: Path
) -> None:
    dataset = RunStore.open(run).dataset()
    export(dataset, tmp_path / "run.csv")
    columns = table(tmp_path / "run.csv")
    assert list(columns) == ["time", "token", "weight", "x0", "x1", "x2"]
    x = np.stack([columns[f"x{i}"] for i in range(D)], axis=-1)
    assert has_same_bytes(x.reshape(-1, N, D), dataset["x"].values)
    assert has_same_bytes(columns["time"][::N], dataset["time"].values)
    assert has_same_bytes(columns["weight"][:N], dataset["weight"].values)


def test_csv_of_a_gaussian_has_a_row_for_each_frame(
    gaussian: RunStore, tmp_path: Path
) -> None:
    dataset = gaussian.dataset()
    export(dataset, tmp_path / "run.csv")
    columns = table(tmp_path / "run.csv")
    names = [f"cov{i}{j}" for i in range(D) for j in range(D)]
    assert list(columns) == ["time", "mean0", "mean1", "mean2", *names]
    mean = np.stack([columns[f"mean{i}"] for i in range(D)], axis=-1)
    assert has_same_bytes(mean, dataset["mean"].values)
    Y = dataset["factor"].values
    cov = np.stack([columns[name] for name in names], axis=-1).reshape(-1, D, D)
    np.testing.assert_allclose(cov, Y @ Y.swapaxes(1, 2), rtol=1e-14, atol=1e-14)


def test_csv_of_many_runs_names_the_run(tmp_path: Path) -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, N, D)).astype(np.float32)
    store = RunStore.create(tmp_path / "run", attrs={}, static={})
    store.append({"time": np.arange(3.0), "x": x}, {})
    export(store.dataset(), tmp_path / "run.csv")
    columns = table(tmp_path / "run.csv")
    assert list(columns) == ["run", "time", "token", "x0", "x1", "x2"]
    assert has_same_bytes(columns["x1"].astype(np.float32), x[..., 1].ravel())


def test_csv_of_many_runs_reads_each_segment_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read per frame and run took 20 s for a family of 32."""
    x = np.random.default_rng(2).normal(size=(9, 6, N, D))
    store = RunStore.create(tmp_path / "run", attrs={}, static={})
    for start in (0, 3):
        segment = {"time": np.arange(start, start + 3.0), "x": x[:, start : start + 3]}
        store.append(segment, {})
    dataset = store.dataset()
    calls, read = [], StoredFrames.__getitem__
    count_reads = lambda frames, key: calls.append(frames.name) or read(frames, key)
    monkeypatch.setattr(StoredFrames, "__getitem__", count_reads)
    export(dataset, tmp_path / "run.csv")
    assert calls == ["x"]
    columns = table(tmp_path / "run.csv")
    assert has_same_bytes(columns["x0"], x[..., 0].ravel())


def test_a_table_is_the_same_in_small_blocks(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = RunStore.open(run).dataset()
    export(dataset, tmp_path / "run.csv")
    monkeypatch.setattr("meanfield.storage._export._BLOCK_ROWS", 2 * N)
    monkeypatch.setattr("meanfield.storage._export._LOAD_LIMIT", 0)
    export(dataset, tmp_path / "blocks.csv")
    assert (tmp_path / "blocks.csv").read_bytes() == (tmp_path / "run.csv").read_bytes()


def test_an_unknown_suffix_is_rejected(gaussian: RunStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"\.npz, \.csv, \.nc; got `\.xls`"):
        export(gaussian.dataset(), tmp_path / "run.xls")


def test_a_dataset_without_table_is_rejected(tmp_path: Path) -> None:
    dataset = new_store(tmp_path / "run").dataset()
    with pytest.raises(InvalidInputError, match=r"Export it as `\.npz`"):
        export(dataset, tmp_path / "run.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_export_that_fails_keeps_the_old_file(
    gaussian: RunStore, tmp_path: Path, limit_file_size: Callable[[int], None]
) -> None:
    target, dataset = tmp_path / "run.csv", gaussian.dataset()
    target.write_text("old")
    limit_file_size(64)
    with pytest.raises(ResourceError):
        export(dataset, target)
    limit_file_size(resource.RLIM_INFINITY)
    assert target.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"run.csv", "gaussian"}


def sheared_layers() -> xr.Dataset:
    """Two layers of a density on 3 × 2 cells, in a box that is no rectangle."""
    mass = np.arange(24.0).reshape(2, 2, 3, 2)
    dims = ("time", "layer", "cell_x", "cell_y")
    axes = np.broadcast_to([[1.0, 0.5], [0.0, 2.0]], (2, 2, 2))
    return xr.Dataset(
        {
            "mass": (dims, mass),
            "density": (dims, 3 * mass),
            "origin": (("time", "coord"), np.array([[1.0, -1.0], [2.0, 0.0]])),
            "axes": (("time", "coord", "axis"), axes),
            "edges_x": ("face_x", np.array([0.0, 1.0, 3.0, 4.0])),
            "edges_y": ("face_y", np.array([-1.0, 0.0, 2.0])),
            "position": ("layer", np.array([0.25, 0.75])),
        },
        coords={"time": np.array([0.0, 0.5])},
    )


def test_csv_of_layers_has_a_row_for_each_cell_of_each(tmp_path: Path) -> None:
    data = sheared_layers()
    export(data, tmp_path / "run.csv")
    columns = table(tmp_path / "run.csv")
    rows = [
        (t, s, *(origin + axes @ (x, y)), 3 * m, m)
        for k, t in enumerate((0.0, 0.5))
        for origin, axes in [(data["origin"].values[k], data["axes"].values[k])]
        for layer, s in enumerate((0.25, 0.75))
        for i, x in enumerate((0.5, 2.0, 3.5))
        for j, y in enumerate((-0.5, 1.0))
        for m in [data["mass"].values[k, layer, i, j]]
    ]
    names = ["time", "position", "x0", "x1", "density", "mass"]
    assert list(columns) == names
    actual = np.stack([columns[name] for name in names], axis=1)
    np.testing.assert_allclose(actual, rows, rtol=1e-15)


def test_the_size_of_a_table_counts_every_run(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 25, 2))
    data = xr.Dataset(
        {"x": (("run", "time", "token", "coord"), x)}, {"time": np.arange(4.0)}
    )
    export(data, tmp_path / "run.csv")
    assert table_bytes(data) == pytest.approx(
        (tmp_path / "run.csv").stat().st_size, rel=0.1
    )


def test_gaussian_covariances_are_exported_on_request(gaussian: RunStore) -> None:
    data = gaussian.dataset(kinds["gaussian"].derive)
    Y = data["factor"].values
    assert data["covariance"].dims == ("time", "coord", "other")
    np.testing.assert_allclose(
        data["covariance"].values, Y @ np.swapaxes(Y, 1, 2), rtol=1e-15
    )
    last = data["covariance"].isel(time=-1).values
    np.testing.assert_allclose(last, Y[-1] @ Y[-1].T, rtol=1e-15)


def test_tables_contain_the_words_of_tokens(tmp_path: Path) -> None:
    """Quoted where they contain a separator."""
    words = ['say "no"', "a,b", "bank"]
    data = xr.Dataset(
        {"x": (("time", "token", "coord"), np.arange(6.0).reshape(2, 3, 1))},
        {"time": [0.0, 1.0], "word": ("token", words)},
    )
    export(data, tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["word"] for row in rows] == 2 * words
    assert [float(row["x0"]) for row in rows] == list(range(6))
