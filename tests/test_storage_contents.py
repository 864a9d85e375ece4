"""Stored contents of a run: every bit, frames, endings, the spec."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from storage_run import (
    ATTRS,
    LENGTH,
    SEGMENTS,
    D,
    Frames,
    N,
    data_files,
    has_same_bytes,
    initial_frame,
    new_store,
    segment_after,
)

from meanfield.endings import Status
from meanfield.errors import InvalidInputError, StoreError
from meanfield.storage import Ending, RunStore

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1 / 3])
DTYPES = {
    "float32": SPECIAL.astype(np.float32),
    "float64": SPECIAL,
    "big-endian": SPECIAL.astype(">f8"),
    "int8": np.arange(-3, 3, dtype=np.int8),
    "uint64": np.arange(2**64 - 6, 2**64, dtype=np.uint64),
}


@pytest.mark.parametrize("values", DTYPES.values(), ids=DTYPES.keys())
def test_frames_round_trip_bit_for_bit(tmp_path: Path, values: np.ndarray) -> None:
    times, zeros = np.arange(6, dtype=np.float32), np.full(6, -0.0)
    store = RunStore.create(tmp_path / "run", attrs={}, static={"weight": values[:1]})
    frames = {"time": times, "x": values.reshape(6, 1, 1), "zeros": zeros}
    store.append(frames, {})
    dataset = store.dataset()
    native = values.astype(values.dtype.newbyteorder("="))
    assert has_same_bytes(dataset["x"].values.ravel(), native)
    assert has_same_bytes(dataset["weight"].values, native[:1])
    assert has_same_bytes(dataset["zeros"].values, zeros)
    assert has_same_bytes(dataset["time"].values, times)
    assert has_same_bytes(store.last_frame()["x"], native[-1:].reshape(1, 1))


def test_segments_of_any_length_join_to_one_run(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 9, N, D)).astype(np.float32)
    times = np.arange(9.0)
    with RunStore.create(tmp_path / "run", attrs={}, static={}) as store:
        for piece in (slice(0, 1), slice(1, 6), slice(6, 6), slice(6, 9)):
            store.append({"time": times[piece], "x": x[:, piece]}, {})
    dataset = RunStore.open(tmp_path / "run").dataset()
    assert dataset["x"].dims == ("run", "time", "token", "coord")
    assert has_same_bytes(dataset["x"].values, x)
    assert has_same_bytes(dataset["time"].values, times)


def test_a_factor_of_rank_zero_is_kept(tmp_path: Path) -> None:
    frames = {"mean": np.ones((2, D)), "factor": np.ones((2, D, 0))}
    store = RunStore.create(tmp_path / "run", attrs={}, static={})
    store.append({"time": np.arange(2.0), **frames}, {})
    assert store.dataset()["factor"].shape == (2, D, 0)
    store.check()


def test_large_segments_are_cut_into_chunks_of_whole_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meanfield.storage._segments._CHUNK", 2 * 8 * N * D)
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    assert (tmp_path / "run/data/segments/00000/x/c/1/0/0").stat().st_size == 240
    assert has_same_bytes(
        store.dataset()["x"].values, segment_after(initial_frame())["x"]
    )


def test_an_early_ending_keeps_only_the_frames_it_reached(tmp_path: Path) -> None:
    times = np.arange(1, 9, dtype=np.float32) / 10
    x = np.arange(8.0)[:, None, None] * np.ones((N, D))
    ending = Ending("blow-up", "grows like 1/(t* - t)", 0.3, 0.35, 1e-3)
    store = RunStore.create(tmp_path / "run", attrs={}, static={})
    store.append({"time": times, "x": x}, {}, ending)
    dataset = RunStore.open(tmp_path / "run").dataset()
    assert has_same_bytes(dataset["time"].values, times[:3])
    assert has_same_bytes(dataset["x"].values, x[:3])
    assert has_same_bytes(store.last_frame()["x"], x[2])


def test_an_ending_without_frames_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    ending = Ending("max-steps", "4096 steps were not enough.", 4.5)
    store.append({}, {"dt": 0.1}, ending)
    reopened = RunStore.open(tmp_path / "run")
    assert (reopened.ending, reopened.state, reopened.frames) == (
        ending,
        {"dt": 0.1},
        LENGTH,
    )


def test_only_an_interrupted_run_is_extended(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {}, Ending("interrupted", "^C", 4.0))
    store.append(segment_after(store.last_frame()), {}, Ending("steady", "rest", 8.0))
    with pytest.raises(StoreError, match=r"has ended \(steady\)"):
        store.append(segment_after(store.last_frame()), {})


@pytest.mark.parametrize("name", [status.ending for status in Status])
def test_status_is_the_code_of_the_ending(tmp_path: Path, name: str) -> None:
    store = new_store(tmp_path / "run")
    store.append({}, {}, Ending(name, "why", 1.5, t_star=2.5))
    dataset = RunStore.open(tmp_path / "run").dataset()
    status = dataset["status"]
    assert status.dtype == np.int8
    assert status.attrs["flag_meanings"].split()[int(status)] == name
    assert status.attrs["flag_values"] == list(range(len(Status)))
    assert (float(dataset["stop_time"]), float(dataset["t_star"])) == (1.5, 2.5)
    assert np.isnan(dataset["t_star_error"])


def test_a_run_without_ending_counts_as_interrupted(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    dataset = store.dataset()
    assert Status(int(dataset["status"])) is Status.INTERRUPTED
    assert float(dataset["stop_time"]) == LENGTH


def test_an_unknown_ending_is_rejected() -> None:
    with pytest.raises(
        InvalidInputError, match="known endings: finished, steady, blow-up"
    ):
        Ending("exploded", "", 0.0)


def test_a_run_stores_its_spec(truth: Path) -> None:
    store = RunStore.open(truth)
    attrs = store.dataset().attrs
    assert store.spec == attrs["spec"] == ATTRS["spec"]
    assert attrs["schema"] == 2
    assert store.attrs == ATTRS


UNFIT: dict[str, Frames] = {
    "no time": {"x": np.ones((1, N, D))},
    "unequal frames": {"time": np.ones(2), "x": np.ones((1, N, D))},
    "unequal tokens": {"time": np.ones(1), "x": np.ones((1, N + 1, D))},
    "missing axis": {"time": np.ones(1), "x": np.ones((1, N))},
    "static": {"time": np.ones(1), "position": np.ones(N)},
    "text": {"time": np.array(["now"])},
    "path": {"time": np.ones(1), "../x": np.ones(1)},
    "reserved": {"time": np.ones(1), "status": np.ones(1)},
}


@pytest.mark.parametrize("frames", UNFIT.values(), ids=UNFIT.keys())
def test_invalid_frames_are_rejected_and_leave_no_files(
    tmp_path: Path, frames: Frames
) -> None:
    store = new_store(tmp_path / "run")
    before = data_files(tmp_path / "run")
    with pytest.raises(InvalidInputError):
        store.append(frames, {})
    assert data_files(tmp_path / "run") == before


FOREIGN: dict[str, Frames] = {
    "dtype": {"time": np.ones(1), "x": np.ones((1, N, D), np.float32)},
    "name": {"time": np.ones(1), "y": np.ones(1)},
    "fewer": {"time": np.ones(1)},
}


@pytest.mark.parametrize("frames", FOREIGN.values(), ids=FOREIGN.keys())
def test_frames_of_another_run_are_rejected(tmp_path: Path, frames: Frames) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    with pytest.raises(StoreError, match=r"x \(<f8\); the new segment holds time"):
        store.append(frames, {})


def test_values_beyond_json_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        RunStore.create(tmp_path / "run", attrs={"spec": object()}, static={})
    with pytest.raises(InvalidInputError, match="JSON"):
        new_store(tmp_path / "run").append({}, {"key": np.arange(2)})


def test_plain_zarr_reads_every_segment(truth: Path) -> None:
    group = zarr.open_group(truth / "data", mode="r", zarr_format=3)
    parts = [group[f"segments/{k:05d}/x"] for k in range(SEGMENTS)]
    x = np.concatenate([part[...] for part in parts if isinstance(part, zarr.Array)])
    assert has_same_bytes(x, RunStore.open(truth).dataset()["x"].values)


def test_storage_loads_neither_jax_nor_xarray() -> None:
    code = "import sys, meanfield.storage; print({'jax', 'xarray'} & set(sys.modules))"
    root = Path(__file__).parent.parent
    output = subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True)
    assert output == "set()\n"
