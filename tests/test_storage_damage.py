"""A damaged record or chunk is named and never read."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from meanfield.errors import InputFileError, StoreError
from meanfield.storage import RunStore


@pytest.fixture
def run(truth: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(truth, tmp_path / "run"))


def chunk_of(run: Path) -> Path:
    (chunk,) = (run / "data" / "segments" / "00003" / "x" / "c").rglob("[0-9]/0/0")
    return chunk


def flip(path: Path, place: int = -100) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped bit": lambda run: flip(chunk_of(run)),
    "truncated chunk": lambda run: os.truncate(chunk_of(run), 64),
    "missing chunk": lambda run: chunk_of(run).unlink(),
    "metadata": lambda run: flip(run / "data/segments/00003/x/zarr.json"),
    "missing array": lambda run: shutil.rmtree(run / "data/segments/00003/x"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_named_and_never_read(
    run: Path, damage: Callable[[Path], object]
) -> None:
    damage(run)
    with pytest.raises(StoreError, match=r"`x` of `.*00003` is damaged"):
        RunStore.open(run).check()
    with pytest.raises(StoreError, match=r"`x` of `.*00003` is damaged"):
        RunStore.open(run).dataset()


@pytest.mark.parametrize("place", [2, 60, 400, -100, -5])
def test_a_flipped_bit_in_the_record_is_found(run: Path, place: int) -> None:
    flip(run / "commit.json", place)
    with pytest.raises(StoreError, match=r"damaged|schema"):
        RunStore.open(run)


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b"\xff", b"null"])
def test_a_record_that_is_none_is_found(run: Path, record: bytes) -> None:
    (run / "commit.json").write_bytes(record)
    with pytest.raises(StoreError, match=r"commit.json` is damaged"):
        RunStore.open(run)


def test_a_folder_without_record_is_no_run(run: Path) -> None:
    (run / "commit.json").unlink()
    with pytest.raises(StoreError, match=r"it has no `commit.json`"):
        RunStore.open(run)


def test_a_newer_schema_is_refused(run: Path) -> None:
    record = json.loads((run / "commit.json").read_text())
    (run / "commit.json").write_text(json.dumps({**record, "schema": 2}))
    with pytest.raises(StoreError, match="schema 2"):
        RunStore.open(run)


def test_a_missing_run_is_an_input_file_error(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="There is no run"):
        RunStore.open(tmp_path / "nothing")


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="runs are folders"):
        RunStore.open(tmp_path / "file")
