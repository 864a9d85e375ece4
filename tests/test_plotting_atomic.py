"""Pictures written again are complete or unchanged, however the writer stops."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from plotting_data import moving_gaussian

from meanfield.cli.jobs._statements import save_errata
from meanfield.errors import ResourceError
from meanfield.plotting import animate, panels, save, save_page, write_file
from meanfield.plotting.pages import save_statements_page
from meanfield.storage import replace_file

REPORT = {"statements": [], "size": "quick", "seed": 0, "dtype": "float64"}
WRITERS = {
    "a.pdf": lambda path: save(panels["disc"](run()), path),
    "a.png": lambda path: save(panels["disc"](run()), path),
    "a.svg": lambda path: save(panels["disc"](run()), path),
    "a.gif": lambda path: animate(run(), path),
    "a.html": lambda path: save_page(run(), path),
    "b.html": lambda path: save_statements_page(REPORT, path),
    "a.md": lambda path: save_errata(REPORT, path),
}
LIMIT = 200  # bytes, fewer than any of these files has
KILLED_WRITER_SCRIPT = """
import os, resource, signal, sys
from pathlib import Path
from test_plotting_atomic import LIMIT, WRITERS

for name, write in WRITERS.items():
    child = os.fork()
    if child == 0:  # the system kills it when a file of its own grows beyond the limit
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
        write(Path(name))
        os._exit(0)
    print(name, os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGXFSZ)
"""


def run():
    return moving_gaussian(np.random.default_rng(1))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_keeps_the_old_picture(
    tmp_path: Path, limit_file_size: Callable[[int], None], name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(b"old")
    limit_file_size(LIMIT)
    with pytest.raises(ResourceError, match=f"`.*{name}` cannot be written") as full:
        WRITERS[name](file)
    assert "\n" not in str(full.value)
    assert full.value.exit_code == 4
    assert file.read_bytes() == b"old"
    assert names_in(tmp_path) == [name]


@pytest.mark.slow
def test_a_killed_writer_keeps_the_old_picture(tmp_path: Path) -> None:
    for name in WRITERS:
        (tmp_path / name).write_bytes(b"old")
    result = subprocess.run(
        [sys.executable, "-c", KILLED_WRITER_SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path])},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"{name} True" for name in WRITERS]
    for name in WRITERS:
        assert (tmp_path / name).read_bytes() == b"old"
    assert all(name in WRITERS or name.startswith(".") for name in names_in(tmp_path))
    for name, write in WRITERS.items():
        write(tmp_path / name)
    assert names_in(tmp_path) == sorted(
        WRITERS
    )  # drafts of the killed writer are removed, too


def test_a_draft_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a[1].png"
    orphan, live = (tmp_path / f".a[1].png.meanfield-draft-{i:016x}" for i in range(2))
    orphan.touch()
    with live.open("xb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        replace_file(file, lambda stream: stream.write(b"new"))
        assert names_in(tmp_path) == sorted([file.name, live.name])
    replace_file(file, lambda stream: stream.write(b"newer"))
    assert names_in(tmp_path) == [file.name]
    assert file.read_bytes() == b"newer"


def test_links_and_devices_are_not_replaced(tmp_path: Path) -> None:
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    link.symlink_to(file)
    write_file(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, b"new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert pipe.is_fifo()
