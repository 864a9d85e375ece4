"""The cache of compiled programs: private to the user, and never read if damaged."""

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meanfield.cli.process._programs import SWITCH, Programs, cache_folder, prune

CODE = """
from meanfield.cli.process._session import open_session
open_session()
import jax
import jax.numpy as jnp
jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(3)).block_until_ready()
"""


def session(cache: Path, umask: int = 0o022) -> str:
    """The output of a process that compiles a small program."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        umask=umask,
    )
    return result.stderr


def test_a_damaged_cached_program_is_recompiled_silently(tmp_path: Path) -> None:
    assert session(tmp_path, umask=0) == ""
    folder = tmp_path / "meanfield" / "compiled"
    entries = sorted(folder.glob("*-program"))
    whole = {entry: entry.read_bytes() for entry in entries}
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in entries} == {0o600}
    first, second, *rest = entries
    os.truncate(first, first.stat().st_size // 2)
    second.write_bytes(whole[first])
    for other_entry in rest:
        other_entry.write_bytes(zlib.compress(b"native code of somebody else"))
    assert session(tmp_path) == ""
    assert [path for path in entries if not is_whole(path, len(whole[path]))] == []


def is_whole(entry: Path, size: int) -> bool:
    """Whether an entry is a program of about that size, with a time stamp."""
    actual = Programs(entry.parent).get(entry.name.removesuffix("-program"))
    return actual is not None and abs(entry.stat().st_size - size) < size / 10


def test_a_cache_entry_of_another_key_is_ignored(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.put("key", b"program")
    assert programs.get("key") == b"program"
    assert programs.get("other") is None
    entry = tmp_path / "key-program"
    content = entry.read_bytes()
    entry.rename(tmp_path / "other-program")
    assert programs.get("other") is None
    for bit in range(8 * len(content)):
        damaged_entry = bytearray(content)
        damaged_entry[bit // 8] ^= 1 << bit % 8
        entry.write_bytes(damaged_entry)
        assert programs.get("key") is None
    entry.unlink()
    entry.mkdir()
    assert programs.get("key") is None
    programs.put("key", b"program")  # it cannot be stored, silently
    entry.rmdir()
    os.mkfifo(entry)
    assert programs.get("key") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "key-program",
        "other-program",
    ]


def test_a_full_disk_loses_only_the_cached_program(
    limit_file_size: Callable[[int], None], tmp_path: Path
) -> None:
    programs = Programs(tmp_path)
    limit_file_size(10)
    programs.put("key", b"x" * 1000)
    assert list(tmp_path.iterdir()) == []
    Programs(tmp_path / "gone").put("key", b"x")


def test_four_processes_sharing_a_cache_read_whole_programs(tmp_path: Path) -> None:
    values = [bytes([65 + k]) * 100_000 for k in range(4)]

    def write_and_read(value: bytes) -> set[bytes | None]:
        programs = Programs(tmp_path)
        actual = set()
        for _ in range(50):
            programs.put("key", value)
            actual.add(programs.get("key"))
        return actual

    with ThreadPoolExecutor(4) as pool:
        assert set.union(*pool.map(write_and_read, values)) <= set(values)
    assert [path.name for path in tmp_path.iterdir()] == ["key-program"]


@pytest.mark.parametrize("unsafe_folder", [".", "meanfield", "meanfield/compiled"])
def test_a_folder_that_others_can_write_to_holds_no_programs(
    unsafe_folder: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(SWITCH, "true")
    assert cache_folder() == tmp_path / "meanfield" / "compiled"
    (tmp_path / unsafe_folder).chmod(0o1777 if unsafe_folder != "." else 0o777)
    is_rejected = (
        unsafe_folder != "meanfield"
    )  # everybody may write there, and remove only their own files
    assert (cache_folder() is None) == is_rejected
    assert cache_folder() is None or not is_rejected
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == is_rejected
    assert not is_rejected or f"`{(tmp_path / unsafe_folder)}`" in stderr


def test_a_folder_of_another_user_holds_no_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(SWITCH, "true")
    assert cache_folder() is not None
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(Path, "stat", stat_of_a_stranger)
    assert cache_folder() is None


def stat_of_a_stranger(path: Path, **_: object) -> os.stat_result:
    """`os.stat` as if user 54321 owned everything but the root."""
    about = os.stat(path)  # noqa: PTH116 - that of `Path` is this
    if path == Path("/"):
        return about
    return os.stat_result((*about[:4], 54321, *about[5:]))


def test_a_cache_in_the_working_folder_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", ".cache")
    assert cache_folder() == tmp_path / "home/.cache/meanfield/compiled"


def test_least_recently_read_programs_are_evicted(tmp_path: Path) -> None:
    for age in range(10):
        entry = tmp_path / f"jit_f-{age}-cache"
        entry.write_bytes(b"x" * 100)
        os.utime(entry, (1e9 - age, 1e9 - age))
    (tmp_path / "notes.txt").write_bytes(b"x" * 5000)
    prune(tmp_path, 1000)
    assert len(list(tmp_path.glob("*-cache"))) == 10
    (tmp_path / ".last-prune").unlink()
    prune(tmp_path, 500)
    entries = {f"jit_f-{age}-cache" for age in range(4)}
    assert {path.name for path in tmp_path.glob("*-cache")} == entries
    assert (tmp_path / "notes.txt").exists()
    (tmp_path / "jit_f-0-cache").write_bytes(b"x" * 5000)
    prune(tmp_path, 500)  # it has just checked
    assert len(list(tmp_path.glob("*-cache"))) == 4
