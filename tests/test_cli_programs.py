"""The folder of compiled programs: torn entries are written anew, old ones go."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

from meanfield.cli.process._programs import prune

CODE = """
from meanfield.cli.process._session import open_session
open_session()
import jax
import jax.numpy as jnp
jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(3)).block_until_ready()
"""


def session(cache: Path) -> str:
    """What a process that compiles a little says."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    return done.stderr


def is_whole(entry: Path) -> bool:
    try:
        zlib.decompress(entry.read_bytes())
    except zlib.error:
        return False
    return True


def test_a_torn_program_is_written_anew_in_silence(tmp_path: Path) -> None:
    session(tmp_path)
    entries = list((tmp_path / "meanfield" / "compiled").glob("*-cache"))
    assert entries
    assert all(map(is_whole, entries))
    for entry in entries:
        os.truncate(entry, entry.stat().st_size // 2)
    assert session(tmp_path) == ""
    assert all(map(is_whole, entries))


def test_the_programs_longest_not_read_go(tmp_path: Path) -> None:
    for age in range(10):
        entry = tmp_path / f"jit_f-{age}-cache"
        entry.write_bytes(b"x" * 100)
        os.utime(entry, (1e9 - age, 1e9 - age))
    (tmp_path / "notes.txt").write_bytes(b"x" * 5000)
    prune(tmp_path, 1000)
    assert len(list(tmp_path.glob("*-cache"))) == 10
    (tmp_path / ".looked-at").unlink()
    prune(tmp_path, 500)
    kept = {f"jit_f-{age}-cache" for age in range(4)}
    assert {path.name for path in tmp_path.glob("*-cache")} == kept
    assert (tmp_path / "notes.txt").exists()
    (tmp_path / "jit_f-0-cache").write_bytes(b"x" * 5000)
    prune(tmp_path, 500)  # it has just looked
    assert len(list(tmp_path.glob("*-cache"))) == 4
