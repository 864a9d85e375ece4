"""Some command lines that nobody means, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).with_name("fuzzing.py")


def test_odd_command_lines_end_as_documented(tmp_path: Path) -> None:
    """`python tests/fuzzing.py 10000 SEED FOLDER` is the whole of it."""
    done = subprocess.run(
        [sys.executable, FUZZER, "20", "0", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["cases"] >= 20
    assert {"0", "2", "3"} <= found["codes"].keys()
