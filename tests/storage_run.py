"""A run written by this process or another, and checks of the result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from meanfield.storage import Ending, RunStore

N, D = 5, 3
SEGMENTS, LENGTH = 12, 4
FINISHED_ENDING = Ending(
    "finished", "The last time was reached.", float(SEGMENTS * LENGTH)
)
ATTRS = {"spec": {"attention": "softmax", "seed": 0}, "dtype": "float64"}
Frames = dict[str, np.ndarray]


def initial_frame() -> Frames:
    x = np.linspace(0.1, 0.8, N * D).reshape(N, D)
    return {"time": np.asarray(0.0), "x": x}


def next_frame(frame: Frames) -> Frames:
    """A chaotic map: one wrong bit in a resumed state changes all later frames."""
    return {"time": frame["time"] + 1.0, "x": 3.9 * frame["x"] * (1.0 - frame["x"])}


def segment_after(frame: Frames) -> Frames:
    frames = []
    for _ in range(LENGTH):
        frame = next_frame(frame)
        frames.append(frame)
    return {
        name: np.stack([frame_part[name] for frame_part in frames]) for name in frame
    }


def new_store(path: Path) -> RunStore:
    weight = np.full(N, 1.0 / N)
    return RunStore.create(path, attrs=ATTRS, static={"weight": weight})


def write(path: Path) -> None:
    """Writes or resumes the run; prints a line before each append."""
    store = RunStore.open(path) if path.exists() else new_store(path)
    with store:
        while store.frames < SEGMENTS * LENGTH:
            frame = store.last_frame() if store.frames else initial_frame()
            frames, result = segment_after(frame), store.frames + LENGTH
            ending = FINISHED_ENDING if result == SEGMENTS * LENGTH else None
            sys.stdout.write("appending\n")
            sys.stdout.flush()
            store.append(frames, {"next": result}, ending)


def writer(path: Path, *commands: str) -> subprocess.Popen[str]:
    """A process that runs `commands`, then `write(path)`."""
    folder = Path(__file__).parent
    code = "; ".join(
        (
            "import os, signal, time; from storage_run import *",
            *commands,
            f"write(Path({str(path)!r}))",
        )
    )
    paths = [str(folder), str(folder.parent), os.environ.get("PYTHONPATH", "")]
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


def committed_record(path: Path) -> dict[str, object]:
    record = json.loads((path / "commit.json").read_bytes())
    return {key: record[key] for key in record if key not in ("created", "checksum")}


def has_same_bytes(left: np.ndarray, right: np.ndarray) -> bool:
    return (left.dtype, left.shape, left.tobytes()) == (
        right.dtype,
        right.shape,
        right.tobytes(),
    )


def assert_prefix(path: Path, truth: Path) -> None:
    """The committed part is undamaged, and a prefix of the full run."""
    store, whole = RunStore.open(path), RunStore.open(truth).dataset()
    store.check()
    expected = whole.isel(time=slice(store.frames))
    for name, variable in store.dataset().variables.items():
        if variable.dims:  # the scalars depend on the ending
            assert has_same_bytes(variable.values, expected[name].values), name


def assert_same_run(path: Path, truth: Path) -> None:
    assert data_files(path) == data_files(truth)
    assert committed_record(path) == committed_record(truth)
