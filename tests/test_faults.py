"""A few of the kills and damages of `faults.py`, which makes thousands."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("faults.py")


def test_kills_and_damage_lose_nothing_and_are_told_in_a_line() -> None:
    command = [sys.executable, str(SCRIPT), "--count", "24", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if '"faults": ["' in line]
    assert wrong == []
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 20
