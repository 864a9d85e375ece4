"""Runs the examples in docstrings: `python tests/docstrings.py meanfield/flows …`.

Like a reader: in double precision, with `np`, `jax` and `jnp`, in an empty folder.
"""

import ast
import contextlib
import doctest
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTED_NODES = ast.Module | ast.ClassDef | ast.FunctionDef


def examples(file: Path) -> Iterator[doctest.DocTest]:
    """The examples of each docstring of a file, also of decorated functions."""
    parser, names = doctest.DocTestParser(), {"np": np, "jax": jax, "jnp": jnp}
    place = file.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, DOCUMENTED_NODES):
            continue
        text, line = ast.get_docstring(node) or "", getattr(node, "lineno", 1)
        title = getattr(node, "name", "the module")
        yield parser.get_doctest(text, dict(names), f"{place}: {title}", place, line)


def failures(places: list[Path]) -> list[str]:
    """Failures of the examples in files, or in all files of folders."""
    reports: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    folders = [
        sorted(place.rglob("*.py")) if place.is_dir() else [place] for place in places
    ]
    with np.printoptions(precision=4, suppress=True):
        for file in (file for files in folders for file in files):
            for test in examples(file):
                with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
                    runner.run(test, out=reports.append)
    return reports


def main() -> None:
    """Prints the failures, and exits with 1 if there are any."""
    jax.config.update("jax_enable_x64", True)
    reports = failures([ROOT / place for place in sys.argv[1:]])
    sys.stdout.write("\n".join(reports))
    sys.exit(bool(reports))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    main()
