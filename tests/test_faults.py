"""A few of the kills and damages of `faults.py`, which makes thousands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults_commands import wait

SCRIPT = Path(__file__).with_name("faults.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases", ["--count 8", "--count 2 --kind pool", "--count 2 --kind group"]
)
def test_kills_and_damage_lose_nothing_and_are_told_in_a_line(cases: str) -> None:
    command = [sys.executable, str(SCRIPT), "--seed", "3", *cases.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if '"faults": ["' in line]
    assert wrong == []
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 0.8 * int(cases.split()[1])


def test_a_command_that_others_delay_is_not_slow(tmp_path: Path) -> None:
    done = wait(os.posix_spawn("/bin/sleep", ["sleep", "3"], {}), tmp_path)
    assert done.code == 0
    assert done.seconds < 2
