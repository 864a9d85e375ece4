"""Several processes on one sweep: killed, interrupted, parallel; the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MAIN = "from meanfield.cli import main; main()"
# Chunks of one flow each: time enough to be killed in the middle.
CHUNKS = 20
SWEEP = ("--measure", "gaussian", "--d", "1", "--t", "0.5", "--chunk", "1")
AXES = ("--over", "A=-1:2:5,cov=1:2:4")
LONG_AXIS, LONG_CHUNKS = ("--over", "epsilon=1:2:20"), 20 * 20
PATIENCE = 60.0


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Starts the command in its own process, with a cache shared by all tests."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "sweep", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    )


def begin(folder: Path, name: str, *options: str) -> subprocess.Popen[str]:
    return start(folder, *SWEEP, *AXES, "--out", name, *options)


def helper_at_work(process: subprocess.Popen[str], sweep: Path) -> int:
    """A further process of the command, once it has claimed a chunk."""
    deadline = time.monotonic() + PATIENCE
    while True:
        owners = {int(name.split(".")[-2]) for name in claims(sweep)}
        if owners - {process.pid}:
            return min(owners - {process.pid})
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.002)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Waits for the exit code, and returns stderr."""
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return err


def is_gone(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or ") Z " in state.read_text()


def wait_for_chunks(sweep: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(list(sweep.glob("done/*.json"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def claims(sweep: Path) -> list[str]:
    folder = sweep / "claimed"
    return [path.name for path in folder.iterdir()] if folder.exists() else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def table(folder: Path) -> bytes:
    """The table of an undisturbed sweep."""
    finish(begin(folder, "calm"))
    return (folder / "calm" / "table.csv").read_bytes()


def test_a_killed_worker_loses_nothing(folder: Path, table: bytes) -> None:
    process, sweep = begin(folder, "killed"), folder / "killed"
    wait_for_chunks(sweep, 3)
    process.kill()
    process.communicate()
    assert len(list((sweep / "done").glob("*.json"))) < CHUNKS
    assert not (sweep / "table.csv").exists()
    finish(start(folder, "killed"))
    assert (sweep / "table.csv").read_bytes() == table
    assert claims(sweep) == []


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on_by_many_workers(
    folder: Path, table: bytes
) -> None:
    process, sweep = begin(folder, "shared"), folder / "shared"
    wait_for_chunks(sweep, 2)
    process.send_signal(signal.SIGINT)
    stderr = finish(process, 130)
    assert "stopped; go on with `meanfield sweep shared`." in stderr
    assert claims(sweep) == []
    assert "ended early" not in finish(begin(folder, "shared", "--workers", "2"))
    assert (sweep / "table.csv").read_bytes() == table
    result = sorted(path.name for path in (sweep / "done").iterdir())
    assert result == [f"{i:05d}.json" for i in range(CHUNKS)]
    assert claims(sweep) == list((sweep / "todo").iterdir()) == []


@pytest.mark.slow
def test_a_killed_worker_is_named_and_its_cells_recomputed(folder: Path) -> None:
    process, sweep = (
        begin(folder, "helped", *LONG_AXIS, "--workers", "2"),
        folder / "helped",
    )
    os.kill(helper_at_work(process, sweep), signal.SIGKILL)
    assert "a worker ended early (ended by signal 9); its cells go" in finish(process)
    assert len(list((sweep / "done").iterdir())) == LONG_CHUNKS
    assert claims(sweep) == []


@pytest.mark.slow_cases("SIGTERM-143", "SIGKILL--9")
@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGKILL", -9)])
def test_helpers_end_with_the_command(folder: Path, number: str, code: int) -> None:
    sweep = folder / number
    process = begin(folder, number, *LONG_AXIS, "--workers", "2")
    helper = helper_at_work(process, sweep)
    process.send_signal(signal.Signals[number])
    finish(process, code)
    deadline = time.monotonic() + 5
    while not is_gone(helper):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if code > 0:
        assert claims(sweep) == []  # both have released their claims
