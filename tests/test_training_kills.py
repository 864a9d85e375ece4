"""A few of the kills and damages of `faults_training.py`: the result is the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("faults_training.py")
CASES = "--kills 4 --writers 1 --disks 2 --flips 10 --seed 5"


@pytest.mark.slow
def test_a_disturbed_training_ends_like_an_undisturbed_one() -> None:
    command = [sys.executable, str(SCRIPT), *CASES.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line for line in lines if line.get("faults")] == []
    assert result.returncode == 0, result.stderr
    assert lines[-1]["counts"]["kills"] >= 4
    assert lines[-1]["counts"]["flips"] == 10
