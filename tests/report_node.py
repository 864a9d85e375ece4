"""Scripts of a report run in Node, without a page."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from meanfield.pages.report._page import script

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="no Node on the PATH: scripts of pages are not tried"
)
SCRIPTS = (
    "data.js",
    "colours.js",
    "camera.js",
    "flow.js",
    "boxes.js",
    "density.js",
    "ellipse.js",
    "curves.js",
    "cells.js",
)


def evaluate_js(expression: str, value: object) -> Any:
    """The value of an expression of `scene`, a value whose arrays are unpacked."""
    assert NODE is not None
    text = script(*SCRIPTS)
    rest = (
        "\n(async () => { const scene = await unpacked(JSON.parse("
        "require('fs').readFileSync(0, 'utf8')));\n"
        f"process.stdout.write(JSON.stringify({expression})); }})();"
    )
    result = subprocess.run(
        [NODE, "-e", text + rest],
        input=json.dumps(value),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout)
