"""Commands do not overwrite existing files, unless `--force` is given."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import CommandResult

from meanfield import runs
from meanfield.spec import parse

Command = Callable[..., CommandResult]
KEYS = {"measure": "gaussian", "d": 2, "A": -1.0, "t": 0.1, "frames": 3}
CASES = {
    "run-cone.png": ("plot", "run"),
    "run-cone.pdf": ("plot", "run"),
    "run-cone.html": ("plot", "run", "--panel=cone", "--html"),
    "a.svg": ("plot", "run", "--panel=rank", "--out=a.svg"),
    "a-disc.svg": ("plot", "run", "--panel=all", "--out=a.svg"),
    "run-again-rank.png": ("plot", "run", "again"),
    "run.gif": ("animate", "run", "--seconds=0.2", "--hold=0"),
    "run.html": ("report", "run"),
    "run-live.html": ("live", "run"),
    "live.html": ("live", "--measure=gaussian", "--A=-1"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "run"
    runs.execute(parse(KEYS), out=folder)
    return folder


@pytest.mark.parametrize("file", CASES)
def test_existing_files_are_replaced_on_request(
    file: str, cli: Command, run: Path, tmp_path: Path
) -> None:
    for name in ("run", "again"):
        shutil.copytree(run, tmp_path / name)
    target = tmp_path / file
    target.write_text("mine")
    files = sorted(tmp_path.iterdir())
    result = cli(*CASES[file])
    assert result.code == 2
    assert f"{file}` exists: add --force to replace it, or name another" in result.err
    assert target.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == files
    assert cli(*CASES[file], "--force").code == 0
    assert b"mine" not in target.read_bytes()[:4]
