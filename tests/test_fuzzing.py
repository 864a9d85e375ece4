"""A few random command lines, in a separate process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from memory_growth import MemoryUse, growth_per_round

FUZZER = Path(__file__).with_name("fuzzing.py")


def test_odd_command_lines_end_as_documented(tmp_path: Path) -> None:
    """`python tests/fuzzing.py 10000 SEED FOLDER` is the full version."""
    result = subprocess.run(
        [sys.executable, FUZZER, "20", "0", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    actual = json.loads(result.stdout)
    assert actual["cases"] >= 20
    assert {"0", "2", "3"} <= actual["codes"].keys()


@pytest.mark.slow
def test_odd_models_end_as_documented(tmp_path: Path) -> None:
    """`python tests/fuzzing_models.py 500 SEED FOLDER` is the full version."""
    script = FUZZER.with_name("fuzzing_models.py")
    result = subprocess.run(
        [sys.executable, script, "40", "7", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert {"0", "3"} <= json.loads(result.stdout)["codes"].keys()


def test_growth_in_every_round_is_a_leak():
    noise = [0, 70, -10, 80, 0, 90]  # growth with a median of 70, and a mean of 5
    steady = [MemoryUse(1000, 5000 + extra) for extra in noise]
    uses = [MemoryUse(1000, 5000 + 400 * (n > 3)) for n in range(6)]
    leaking = [MemoryUse(1000 + 31 * n, 5000 + 61 * n) for n in range(6)]
    assert growth_per_round(steady).blocks < 60
    assert growth_per_round(uses) == MemoryUse(0, 0)
    assert growth_per_round(leaking) == MemoryUse(31, 61)
