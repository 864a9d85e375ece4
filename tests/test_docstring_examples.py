"""Every public name has an example, and every example passes."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from docstrings import ROOT, failures

PACKAGE = ROOT / "meanfield"
PARTS = sorted(
    part
    for part in PACKAGE.iterdir()
    if part.suffix == ".py" or (part / "__init__.py").exists()
)
LIGHT = ("cells.py", "spectrum.py", "endings.py", "spec")  # without a compiler
N_WITHOUT_EXAMPLE = 0  # of public names; it does not grow


@pytest.fixture(scope="module")
def public_names() -> Iterator[ModuleType]:
    """The module that writes the reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "_ext")
        yield importlib.import_module("public_names")


def test_every_public_name_has_an_example(public_names: ModuleType):
    names = public_names.without_examples()
    assert len(names) <= N_WITHOUT_EXAMPLE, names


def test_every_name_that_a_package_offers_is_public(public_names: ModuleType):
    """The modules of the reference are those without an underscore.

    Commands, and the pages that they write, are tested as commands.
    """
    module_names = set(public_names.MODULES)
    loose = {f"meanfield.{part.stem}" for part in PARTS if part.stem[0] != "_"}
    assert loose - module_names == {"meanfield.cli", "meanfield.pages"}


@pytest.mark.parametrize("place", LIGHT)
def test_examples_that_skip_compilation_pass(place: str):
    assert not failures([PACKAGE / place])


def test_a_wrong_example_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bad_file = tmp_path / "wrong.py"
    bad_file.write_text('def one():\n    """One.\n\n    >>> 1 + 1\n    1\n    """\n')
    monkeypatch.setattr("docstrings.ROOT", tmp_path)
    assert "Expected" in "".join(failures([bad_file]))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.stem)
def test_docstring_examples_pass(part: Path):
    """In a separate process, as for a reader, without runtime type checks."""
    place = part.relative_to(ROOT).as_posix()
    command = [sys.executable, "tests/docstrings.py", place]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
