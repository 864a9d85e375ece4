"""What was committed comes back bit for bit, whatever was killed or damaged."""

import csv
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    ResourceError,
    StoreError,
)
from meanfield.storage import ENDINGS, Ending, RunStore, export
from meanfield.storage._record import Record, write_record

N, D = 5, 3
SEGMENTS, LENGTH = 12, 4
FINISHED = Ending("finished", "The last time was reached.", float(SEGMENTS * LENGTH))
ATTRS = {"spec": {"attention": "softmax", "seed": 0}, "dtype": "float64"}

Frames = dict[str, np.ndarray]


def initial_frame() -> Frames:
    x = np.linspace(0.1, 0.8, N * D).reshape(N, D)
    return {"time": np.asarray(0.0), "x": x}


def next_frame(frame: Frames) -> Frames:
    """A chaotic map: one wrong bit in a resumed state shows in all later frames."""
    return {"time": frame["time"] + 1.0, "x": 3.9 * frame["x"] * (1.0 - frame["x"])}


def segment_after(frame: Frames) -> Frames:
    frames = []
    for _ in range(LENGTH):
        frame = next_frame(frame)
        frames.append(frame)
    return {name: np.stack([each[name] for each in frames]) for name in frame}


def new_store(path: Path) -> RunStore:
    weight = np.full(N, 1.0 / N)
    return RunStore.create(path, attrs=ATTRS, static={"weight": weight})


def write(path: Path) -> None:
    """The run, begun or gone on with; prints a line when it is about to append."""
    store = RunStore.open(path) if path.exists() else new_store(path)
    with store:
        while store.frames < SEGMENTS * LENGTH:
            frame = store.last_frame() if store.frames else initial_frame()
            frames, done = segment_after(frame), store.frames + LENGTH
            ended = FINISHED if done == SEGMENTS * LENGTH else None
            sys.stdout.write("appending\n")
            sys.stdout.flush()
            store.append(frames, {"next": done}, ended)


def writer(path: Path, *commands: str) -> subprocess.Popen[str]:
    """Another process that runs `commands`, then `write(path)`."""
    here = Path(__file__).parent
    code = "; ".join(
        ("from test_storage import *", *commands, f"write(Path({str(path)!r}))")
    )
    paths = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def data_files(path: Path) -> dict[str, bytes]:
    data = path / "data"
    return {
        file.relative_to(data).as_posix(): file.read_bytes()
        for file in data.rglob("*")
        if file.is_file()
    }


def committed(path: Path) -> dict[str, object]:
    record = json.loads((path / "commit.json").read_bytes())
    return {key: record[key] for key in record if key not in ("created", "checksum")}


def same_bytes(left: np.ndarray, right: np.ndarray) -> bool:
    return (left.dtype, left.shape, left.tobytes()) == (
        right.dtype,
        right.shape,
        right.tobytes(),
    )


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody interrupted."""
    path = tmp_path_factory.mktemp("truth") / "run"
    write(path)
    return path


@pytest.fixture
def run(truth: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(truth, tmp_path / "run"))


def assert_prefix(path: Path, truth: Path) -> None:
    """What is committed is sound, and is what the whole run begins with."""
    store, whole = RunStore.open(path), RunStore.open(truth).dataset()
    store.check()
    expected = whole.isel(time=slice(store.frames))
    for name, variable in store.dataset().variables.items():
        if variable.dims:  # the scalars tell of the ending
            assert same_bytes(variable.values, expected[name].values), name


def assert_same_run(path: Path, truth: Path) -> None:
    assert data_files(path) == data_files(truth)
    assert committed(path) == committed(truth)


# --- kill and resume


def test_kill_between_chunks_and_commit_leaves_the_last_commit(
    tmp_path: Path, truth: Path
) -> None:
    path = tmp_path / "run"
    kill_at_third_commit = (
        "calls, replace = [], os.replace",
        "due = lambda target: Path(target).parent.name == 'run' and "
        "Path(target).name == 'commit.json' and (calls.append(0) or len(calls) == 3)",
        "os.replace = lambda old, new, **_: "
        "os.kill(os.getpid(), signal.SIGKILL) if due(new) else replace(old, new)",
    )
    with writer(path, *kill_at_third_commit) as process:
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert RunStore.open(path).frames == 2 * LENGTH
    assert (path / "data" / "segments" / "00002").exists()  # written, not committed
    assert_prefix(path, truth)
    write(path)
    assert_same_run(path, truth)


def test_kills_at_random_moments_never_change_the_run(
    tmp_path: Path, truth: Path
) -> None:
    path, moments = tmp_path / "run", random.Random(0)
    for _ in range(8):
        with writer(path) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0.0, 0.1))
            process.kill()
        assert_prefix(path, truth)
    write(path)
    assert_same_run(path, truth)


def test_a_kill_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "run"
    wait = "RunStore.last_frame = lambda _: (print('held', flush=True), time.sleep(60))"
    with writer(path, wait) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "held\n":
            pass
        with pytest.raises(StoreError, match="another process"):
            RunStore.open(path).claim()
        process.kill()
    RunStore.open(path).claim()


def test_last_frame_is_the_state_of_the_flow(truth: Path) -> None:
    store, frame = RunStore.open(truth), initial_frame()
    for _ in range(SEGMENTS * LENGTH):
        frame = next_frame(frame)
    last = store.last_frame()
    assert all(same_bytes(last[name], frame[name]) for name in frame)
    assert store.state == {"next": SEGMENTS * LENGTH}


# --- damage


def chunk_of(run: Path) -> Path:
    (chunk,) = (run / "data" / "segments" / "00003" / "x" / "c").rglob("[0-9]/0/0")
    return chunk


def flip(path: Path, place: int = -100) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped bit": lambda run: flip(chunk_of(run)),
    "truncated chunk": lambda run: os.truncate(chunk_of(run), 64),
    "missing chunk": lambda run: chunk_of(run).unlink(),
    "metadata": lambda run: flip(run / "data/segments/00003/x/zarr.json"),
    "missing array": lambda run: shutil.rmtree(run / "data/segments/00003/x"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_named_and_never_read(
    run: Path, damage: Callable[[Path], object]
) -> None:
    damage(run)
    with pytest.raises(StoreError, match=r"`x` of `.*00003` is damaged"):
        RunStore.open(run).check()
    with pytest.raises(StoreError, match=r"`x` of `.*00003` is damaged"):
        RunStore.open(run).dataset()


@pytest.mark.parametrize("place", [2, 60, 400, -100, -5])
def test_a_flipped_bit_in_the_record_is_found(run: Path, place: int) -> None:
    flip(run / "commit.json", place)
    with pytest.raises(StoreError, match=r"damaged|schema"):
        RunStore.open(run)


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b"\xff", b"null"])
def test_a_record_that_is_none_is_found(run: Path, record: bytes) -> None:
    (run / "commit.json").write_bytes(record)
    with pytest.raises(StoreError, match=r"commit.json` is damaged"):
        RunStore.open(run)


def test_a_folder_without_record_is_no_run(run: Path) -> None:
    (run / "commit.json").unlink()
    with pytest.raises(StoreError, match=r"it has no `commit.json`"):
        RunStore.open(run)


def test_a_newer_schema_is_refused(run: Path) -> None:
    record = json.loads((run / "commit.json").read_text())
    (run / "commit.json").write_text(json.dumps({**record, "schema": 2}))
    with pytest.raises(StoreError, match="schema 2"):
        RunStore.open(run)


def test_a_missing_run_is_an_input_file_error(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="There is no run"):
        RunStore.open(tmp_path / "nothing")


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="runs are folders"):
        RunStore.open(tmp_path / "file")


# --- writers


def test_there_is_one_writer(tmp_path: Path) -> None:
    first = new_store(tmp_path / "run")
    second = RunStore.open(tmp_path / "run")
    with pytest.raises(StoreError, match="another process") as caught:
        second.append(segment_after(initial_frame()), {})
    assert "\n" not in str(caught.value)
    first.close()
    second.append(segment_after(initial_frame()), {})


def test_a_stale_writer_is_refused(tmp_path: Path) -> None:
    first = new_store(tmp_path / "run")
    stale = RunStore.open(tmp_path / "run")
    with first:
        first.append(segment_after(initial_frame()), {"dt": float("nan")})
    with pytest.raises(StoreError, match="open it again"):
        stale.append({}, {})
    RunStore.open(tmp_path / "run").claim()


def test_a_commit_in_doubt_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, commit = new_store(tmp_path / "run"), write_record

    def commit_and_fail(folder: Path, record: Record) -> None:
        commit(folder, record)
        raise ResourceError("The folder could not be flushed.")

    frames = segment_after(initial_frame())
    with monkeypatch.context() as patch:
        patch.setattr("meanfield.storage._store.write_record", commit_and_fail)
        with pytest.raises(ResourceError, match="flushed"):
            store.append(frames, {})
    with pytest.raises(StoreError, match="open it again"):
        store.append(frames, {})
    assert RunStore.open(tmp_path / "run").claim().frames == LENGTH


def test_a_reader_keeps_the_commit_it_opened(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    reader = RunStore.open(tmp_path / "run")
    store.append(segment_after(store.last_frame()), {})
    assert reader.dataset().sizes["time"] == LENGTH
    assert RunStore.open(tmp_path / "run").dataset().sizes["time"] == 2 * LENGTH


@pytest.mark.parametrize("content", ["run", "notes.txt"])
def test_a_taken_folder_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run"
    if content == "run":
        new_store(path)
    else:
        path.mkdir()
        (path / content).touch()
    before = sorted(path.rglob("*"))
    with pytest.raises(InvalidInputError, match="choose another"):
        new_store(path)
    assert sorted(path.rglob("*")) == before


def test_an_empty_folder_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert new_store(tmp_path / "run").frames == 0


def test_a_parent_that_cannot_be_written_is_a_resource_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="could not be written"):
        new_store(tmp_path / "file" / "run")
    with pytest.raises(ResourceError, match="could not be written"):
        new_store(tmp_path / "file" / "deep" / "run")


@pytest.fixture
def files_end_at() -> Iterator[Callable[[int], None]]:
    """Makes the system refuse to write longer files, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_costs_only_the_segment(
    tmp_path: Path, files_end_at: Callable[[int], None]
) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    frames = segment_after(store.last_frame())
    files_end_at(64)
    with pytest.raises(ResourceError, match="could not be written"):
        store.append(frames, {})
    files_end_at(resource.RLIM_INFINITY)
    RunStore.open(tmp_path / "run").check()
    assert store.frames == RunStore.open(tmp_path / "run").frames == LENGTH
    store.append(frames, {})
    assert store.frames == 2 * LENGTH


# --- what is stored


SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1 / 3])
DTYPES = {
    "float32": SPECIAL.astype(np.float32),
    "float64": SPECIAL,
    "big-endian": SPECIAL.astype(">f8"),
    "int8": np.arange(-3, 3, dtype=np.int8),
    "uint64": np.arange(2**64 - 6, 2**64, dtype=np.uint64),
}


@pytest.mark.parametrize("values", DTYPES.values(), ids=DTYPES.keys())
def test_every_bit_comes_back(tmp_path: Path, values: np.ndarray) -> None:
    times, zeros = np.arange(6, dtype=np.float32), np.full(6, -0.0)
    store = RunStore.create(tmp_path / "run", attrs={}, static={"weight": values[:1]})
    frames = {"time": times, "x": values.reshape(6, 1, 1), "zeros": zeros}
    store.append(frames, {})
    dataset = store.dataset()
    native = values.astype(values.dtype.newbyteorder("="))
    assert same_bytes(dataset["x"].values.ravel(), native)
    assert same_bytes(dataset["weight"].values, native[:1])
    assert same_bytes(dataset["zeros"].values, zeros)
    assert same_bytes(dataset["time"].values, times)
    assert same_bytes(store.last_frame()["x"], native[-1:].reshape(1, 1))


def test_segments_of_any_length_join_to_one_run(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 9, N, D)).astype(np.float32)
    times = np.arange(9.0)
    with RunStore.create(tmp_path / "run", attrs={}, static={}) as store:
        for piece in (slice(0, 1), slice(1, 6), slice(6, 6), slice(6, 9)):
            store.append({"time": times[piece], "x": x[:, piece]}, {})
    dataset = RunStore.open(tmp_path / "run").dataset()
    assert dataset["x"].dims == ("run", "time", "token", "coord")
    assert same_bytes(dataset["x"].values, x)
    assert same_bytes(dataset["time"].values, times)


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
    assert same_bytes(store.dataset()["x"].values, segment_after(initial_frame())["x"])


def test_an_early_ending_keeps_only_the_frames_it_reached(tmp_path: Path) -> None:
    times = np.arange(1, 9, dtype=np.float32) / 10
    x = np.arange(8.0)[:, None, None] * np.ones((N, D))
    ending = Ending("blow-up", "grows like 1/(t* - t)", 0.3, 0.35, 1e-3)
    store = RunStore.create(tmp_path / "run", attrs={}, static={})
    store.append({"time": times, "x": x}, {}, ending)
    dataset = RunStore.open(tmp_path / "run").dataset()
    assert same_bytes(dataset["time"].values, times[:3])
    assert same_bytes(dataset["x"].values, x[:3])
    assert same_bytes(store.last_frame()["x"], x[2])


def test_an_ending_without_frames_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    ending = Ending("max-steps", "4096 steps were not enough.", 4.5)
    store.append({}, {"dt": 0.1}, ending)
    again = RunStore.open(tmp_path / "run")
    assert (again.ending, again.state, again.frames) == (ending, {"dt": 0.1}, LENGTH)


def test_only_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {}, Ending("interrupted", "^C", 4.0))
    store.append(segment_after(store.last_frame()), {}, Ending("steady", "rest", 8.0))
    with pytest.raises(StoreError, match="has ended: steady"):
        store.append(segment_after(store.last_frame()), {})


@pytest.mark.parametrize("name", ENDINGS)
def test_status_is_the_place_of_the_ending(tmp_path: Path, name: str) -> None:
    store = new_store(tmp_path / "run")
    store.append({}, {}, Ending(name, "why", 1.5, t_star=2.5))
    dataset = RunStore.open(tmp_path / "run").dataset()
    status = dataset["status"]
    assert status.dtype == np.int8
    assert status.attrs["flag_meanings"].split()[int(status)] == name
    assert status.attrs["flag_values"] == list(range(9))
    assert (float(dataset["stop_time"]), float(dataset["t_star"])) == (1.5, 2.5)
    assert np.isnan(dataset["t_star_error"])


def test_a_run_without_ending_counts_as_interrupted(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    dataset = store.dataset()
    assert ENDINGS[int(dataset["status"])] == "interrupted"
    assert float(dataset["stop_time"]) == LENGTH


def test_an_unknown_ending_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="known: finished, steady, blow-up"):
        Ending("exploded", "", 0.0)


def test_a_run_knows_its_specification(truth: Path) -> None:
    store = RunStore.open(truth)
    attrs = store.dataset().attrs
    assert store.spec == attrs["spec"] == ATTRS["spec"]
    assert attrs["schema"] == 1
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
def test_unfit_frames_are_refused_and_leave_nothing(
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
def test_frames_of_another_run_are_refused(tmp_path: Path, frames: Frames) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    with pytest.raises(StoreError, match=r"holds time \(<f8\), x \(<f8\); got time"):
        store.append(frames, {})


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        RunStore.create(tmp_path / "run", attrs={"spec": object()}, static={})
    with pytest.raises(InvalidInputError, match="JSON"):
        new_store(tmp_path / "run").append({}, {"key": np.arange(2)})


def test_plain_zarr_reads_every_segment(truth: Path) -> None:
    group = zarr.open_group(truth / "data", mode="r", zarr_format=3)
    parts = [group[f"segments/{k:05d}/x"] for k in range(SEGMENTS)]
    x = np.concatenate([part[...] for part in parts if isinstance(part, zarr.Array)])
    assert same_bytes(x, RunStore.open(truth).dataset()["x"].values)


def test_storage_loads_neither_jax_nor_xarray() -> None:
    code = "import sys, meanfield.storage; print({'jax', 'xarray'} & set(sys.modules))"
    root = Path(__file__).parent.parent
    told = subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True)
    assert told == "set()\n"


# --- export


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
            assert same_bytes(file[str(name)], variable.values)
            assert tuple(attrs["variables"][name]["dims"]) == variable.dims
        assert set(file) == {*map(str, dataset.variables), "attrs"}
    assert attrs["spec"] == ATTRS["spec"]


def test_csv_of_points_has_a_row_for_each_token_of_each_frame(
    run: Path, tmp_path: Path
) -> None:
    dataset = RunStore.open(run).dataset()
    export(dataset, tmp_path / "run.csv")
    columns = table(tmp_path / "run.csv")
    assert list(columns) == ["time", "token", "weight", "x0", "x1", "x2"]
    x = np.stack([columns[f"x{i}"] for i in range(D)], axis=-1)
    assert same_bytes(x.reshape(-1, N, D), dataset["x"].values)
    assert same_bytes(columns["time"][::N], dataset["time"].values)
    assert same_bytes(columns["weight"][:N], dataset["weight"].values)


def test_csv_of_a_gaussian_has_a_row_for_each_frame(
    gaussian: RunStore, tmp_path: Path
) -> None:
    dataset = gaussian.dataset()
    export(dataset, tmp_path / "run.csv")
    columns = table(tmp_path / "run.csv")
    names = [f"cov{i}{j}" for i in range(D) for j in range(D)]
    assert list(columns) == ["time", "mean0", "mean1", "mean2", *names]
    mean = np.stack([columns[f"mean{i}"] for i in range(D)], axis=-1)
    assert same_bytes(mean, dataset["mean"].values)
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
    assert same_bytes(columns["x1"].astype(np.float32), x[..., 1].ravel())


def test_an_unknown_suffix_is_refused(gaussian: RunStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"\.npz, \.csv; got `\.xls`"):
        export(gaussian.dataset(), tmp_path / "run.xls")


def test_a_dataset_that_is_no_table_is_refused(tmp_path: Path) -> None:
    dataset = new_store(tmp_path / "run").dataset()
    with pytest.raises(InvalidInputError, match=r"Export it as `\.npz`"):
        export(dataset, tmp_path / "run.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_export_that_fails_keeps_the_old_file(
    gaussian: RunStore, tmp_path: Path, files_end_at: Callable[[int], None]
) -> None:
    target, dataset = tmp_path / "run.csv", gaussian.dataset()
    target.write_text("old")
    files_end_at(64)
    with pytest.raises(ResourceError):
        export(dataset, target)
    files_end_at(resource.RLIM_INFINITY)
    assert target.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"run.csv", "gaussian"}
