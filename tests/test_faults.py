"""A few of the kills and damages of `faults.py`, which runs thousands."""

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
def test_kills_and_damage_lose_nothing_and_give_one_line(cases: str) -> None:
    command = [sys.executable, str(SCRIPT), "--seed", "3", *cases.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    failures = [line for line in result.stdout.splitlines() if '"faults": ["' in line]
    assert failures == []
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) >= 0.8 * int(cases.split()[1])


def test_cpu_time_and_not_wall_time_is_judged(tmp_path: Path) -> None:
    result = wait(os.posix_spawn("/bin/sleep", ["sleep", "3"], {}), tmp_path)
    assert result.code == 0
    assert result.seconds < 2


INTERRUPT_SCRIPT = """
import os, signal, sys, tempfile
from pathlib import Path

from faults_commands import start_command, wait

signal.signal(signal.SIGINT, signal.default_int_handler)
with tempfile.TemporaryDirectory() as name:
    for _ in range(20):
        number = start_command(["list"], Path(name), None, fresh=False)
        os.kill(number, signal.SIGINT)
        assert wait(number, Path(name)).code in (130, -2)
        assert Path(name).exists()
"""


def test_a_command_interrupted_at_once_removes_nothing() -> None:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parent)}
    command = [sys.executable, "-c", INTERRUPT_SCRIPT]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
