"""Runs page scripts in Node on the table of test cases."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from live_table import TABLE

from meanfield.pages.live._page import FOLDER

NODE = shutil.which("node")
HERE = Path(__file__).parent
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))
NAMES = [row["name"] for row in ROWS]

needs_node = pytest.mark.skipif(
    NODE is None, reason="no Node on the PATH: JavaScript is not run"
)


def problem_named(name: str) -> dict[str, Any]:
    """The problem of a row of the table."""
    return next(row["problem"] for row in ROWS if row["name"] == name)


def run_module(module: str, value: Any) -> Any:
    """The result of the function `answer` in a module that may import page modules."""
    code = re.sub(r'"\./(\w+\.js)"', rf'"{FOLDER.as_uri()}/\1"', module)
    code += f"process.stdout.write(JSON.stringify(answer({json.dumps(value)})));"
    command = [str(NODE), "--input-type=module", "--eval", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def run_script(script: str, value: dict[str, Any]) -> Any:
    """The output of a script in the folder of the tests, run by Node."""
    assert NODE is not None
    result = subprocess.run(
        [NODE, HERE / script],
        input=json.dumps(value),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
