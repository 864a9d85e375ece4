"""Damaged records and chunks are named and never read."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meanfield.errors import InputFileError, StoreError
from meanfield.storage import RunStore
from meanfield.storage.disk._files import json_digest
from tests.storage_run import initial_frame, new_store, segment_after


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
        RunStore.open(run).dataset().load()


@pytest.mark.parametrize("place", [2, 60, 400, -100, -5])
def test_a_flipped_bit_in_the_record_is_found(run: Path, place: int) -> None:
    flip(run / "commit.json", place)
    with pytest.raises(StoreError, match=r"damaged|schema"):
        RunStore.open(run)


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b"\xff", b"null"])
def test_an_invalid_record_is_detected(run: Path, record: bytes) -> None:
    (run / "commit.json").write_bytes(record)
    with pytest.raises(StoreError, match=r"commit.json` is damaged"):
        RunStore.open(run)


def test_a_folder_without_record_is_rejected_as_a_run(run: Path) -> None:
    (run / "commit.json").unlink()
    with pytest.raises(StoreError, match=r"it has no `commit.json`"):
        RunStore.open(run)


def test_a_newer_schema_is_rejected(run: Path) -> None:
    record = json.loads((run / "commit.json").read_text())
    (run / "commit.json").write_text(json.dumps({**record, "schema": 3}))
    with pytest.raises(StoreError, match="schema 3"):
        RunStore.open(run)


def test_a_missing_run_is_an_input_file_error(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="There is no run"):
        RunStore.open(tmp_path / "nothing")


def test_a_file_is_rejected_as_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputFileError, match="it is not a folder"):
        RunStore.open(tmp_path / "file")


def rewrite(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the record, with a valid digest."""
    record = json.loads((run / "commit.json").read_text())
    record.pop("checksum")
    change(record)
    whole = {**record, "checksum": json_digest(record)}
    (run / "commit.json").write_text(json.dumps(whole))


def rename(names: dict[str, Any], old: str, new: str) -> None:
    names[new] = names.pop(old)


def escape_folder(record: dict[str, Any]) -> None:
    rename(record["variables"], "x", "../../../../../etc")
    for segment in record["segments"]:
        rename(segment["checksums"], "x", "../../../../../etc")


ABSURD: dict[str, Callable[[dict[str, Any]], object]] = {
    "a name that leads outside": escape_folder,
    "a static name that leads outside": lambda r: rename(r["static"], "weight", "../a"),
    "a size below zero": lambda r: r["sizes"].update(token=-1),
    "a size of memory's end": lambda r: r["sizes"].update(token=10**11),
    "a size that is true": lambda r: r["sizes"].update(token=True),
    "frames that are not there": lambda r: r.update(frames=10**9),
    "a segment without end": lambda r: (
        r["segments"][0].update(frames=10**12),
        r.update(frames=r["frames"] + 10**12 - 4),
    ),
    "a segment without arrays": lambda r: r["segments"][1].update(checksums={}),
    "a segment that is a word": lambda r: r["segments"].append("x"),
    "a digest that is none": lambda r: r["static"].update(weight="0"),
    "objects": lambda r: r["variables"]["x"].update(dtype="|O"),
    "other numbers": lambda r: r["variables"]["x"].update(dtype="<f4"),
    "no axis of time": lambda r: r["variables"]["x"].update(dims=["token"]),
    "an axis twice": lambda r: r["variables"]["x"].update(dims=["time", "coord"] * 2),
    "an axis that is unknown": lambda r: r["variables"]["x"].update(dims=["time", "u"]),
    "an unknown ending": lambda r: r["ending"].update(name="x"),
    "an ending that is a list": lambda r: r.update(ending=[]),
    "no state": lambda r: r.pop("state"),
    "a surrogate": lambda r: r.update(created="\ud800"),
}


@pytest.mark.parametrize("change", ABSURD.values(), ids=ABSURD.keys())
def test_an_absurd_record_with_a_right_digest_is_rejected_in_a_line(
    run: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    rewrite(run, change)
    with pytest.raises(StoreError) as error_info:
        RunStore.open(run).dataset().load()
    assert "\n" not in str(error_info.value)


def test_a_record_of_a_hundred_thousand_brackets_is_damaged(run: Path) -> None:
    (run / "commit.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="is damaged"):
        RunStore.open(run)


PARTS = ("commit.json", "data", "data/segments", "data/segments/00003", "data/static")


@pytest.mark.parametrize("part", [*PARTS, "data/segments/00003/x/c"])
def test_symbolic_links_are_not_followed(run: Path, tmp_path: Path, part: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / part).rename(elsewhere)
    (run / part).symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a link"):
        RunStore.open(run).dataset().load()


@pytest.mark.parametrize("part", ["data", "data/segments", "data/segments/00000"])
def test_nothing_is_removed_or_written_through_a_link(
    tmp_path: Path, part: str
) -> None:
    store, elsewhere = new_store(tmp_path / "run"), tmp_path / "elsewhere"
    shutil.rmtree(tmp_path / "run" / part, ignore_errors=True)
    for name in ("00000", "00001", "segments/00000", "static"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "precious").touch()
    (tmp_path / "run" / part).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(StoreError, match="is a link"):
        store.append(segment_after(initial_frame()), {})
    assert sorted(elsewhere.rglob("*")) == before


@pytest.mark.parametrize("name", ["notes.txt", "notes", "x/notes"])
def test_foreign_files_in_a_store_are_kept(tmp_path: Path, name: str) -> None:
    store = new_store(tmp_path / "run")
    for index in (0, 7):
        place = tmp_path / "run" / "data" / "segments" / f"{index:05d}"
        (place / name).parent.mkdir(parents=True)
        (place / name).touch()
    with pytest.raises(StoreError, match="was not written by this run"):
        store.append(segment_after(initial_frame()), {})
    shutil.move(tmp_path / "run/data/segments/00000", tmp_path / "mine")
    store.append(segment_after(initial_frame()), {})
    assert (place / name).exists()
    RunStore.open(tmp_path / "run").check()
