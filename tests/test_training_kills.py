"""A training that is killed, at any moment, ends with the bytes of one that is not."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

MEANFIELD = sys.executable, "-m", "meanfield", "train"
START = "start", "patches", "--task-options", "patch=28", "--seeds", "0:2"
EPOCHS, KILLS = 150, 10
PATIENCE = 120.0  # seconds for one more epoch, with all that is compiled before
# What depends on when it ran, and who held it.
OF_THE_MACHINE = "seconds.json", "lock"


def started(folder: Path) -> subprocess.Popen[bytes]:
    """A process that begins the training, or goes on with it."""
    begins = not (folder / "training.json").is_file()
    begin = (*START, "--epochs", str(EPOCHS), "--out", str(folder))
    command = begin if begins else ("resume", str(folder))
    return subprocess.Popen([*MEANFIELD, *command], stderr=subprocess.DEVNULL)


def epoch_of(folder: Path) -> int:
    file = folder / "training.json"
    return json.loads(file.read_text())["epoch"] if file.is_file() else -1


def killed(folder: Path, after: float) -> None:
    """One life of a training, which ends so many seconds after its first epoch."""
    before, process = epoch_of(folder), started(folder)
    end = time.monotonic() + PATIENCE
    while epoch_of(folder) <= max(before, 0):
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < end, "no epoch came"
        time.sleep(0.02)
    time.sleep(after)
    process.kill()
    assert process.wait() == -9


def files(folder: Path) -> dict[str, bytes]:
    kept = (f for f in folder.iterdir() if f.name not in OF_THE_MACHINE)
    return {file.name: file.read_bytes() for file in kept}


@pytest.mark.slow
def test_a_training_killed_ten_times_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole, often = tmp_path / "whole", tmp_path / "often"
    assert started(whole).wait() == 0
    rng = random.Random(0)
    for _ in range(KILLS):
        killed(often, rng.uniform(0, 0.3))
    assert 0 < epoch_of(often) < EPOCHS
    assert started(often).wait() == 0
    assert files(often) == files(whole)
