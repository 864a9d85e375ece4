"""The folder of a sweep: claims, lost workers, damage, foreign files."""

import os
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meanfield import runs
from meanfield.errors import InputFileError, StoreError
from meanfield.runs import SweepStore
from meanfield.runs.sweeps._rows import validate_axes
from meanfield.spec import parse, parse_axes
from meanfield.storage import TaskFolder, create_tasks, read_tasks
from tests.conftest import CommandResult

Run = Callable[..., CommandResult]

BASE = {"measure": "gaussian", "d": 1, "V": 1.0}


@pytest.fixture
def tasks(tmp_path: Path) -> TaskFolder:
    create_tasks(tmp_path / "t", {"schema": 2}, "sweep.json", 20)
    return TaskFolder(tmp_path / "t", 20, read_tasks(tmp_path / "t", "sweep.json")[1])


def test_each_task_is_claimed_once(tasks: TaskFolder) -> None:
    def work(_: int) -> list[int]:
        folder = TaskFolder(tasks.path, tasks.n_tasks, tasks.seal)
        return list(iter(folder.claim, None))

    with ThreadPoolExecutor(8) as pool:
        tasks_claimed = [task for actual in pool.map(work, range(8)) for task in actual]
    assert sorted(tasks_claimed) == list(range(20))


def test_lost_claims_are_released_and_live_ones_kept(tasks: TaskFolder) -> None:
    host = os.uname().nodename
    old, todo, claims = time.time() - 3600, tasks.path / "todo", tasks.path / "claimed"
    dead = f"{host}.4194305.0a"  # above the largest process id
    reborn = f"{host}.{os.getpid()}.0b"  # the pid of this process, started earlier
    for i, name in enumerate((dead, "far.away.1.0c", "far.away.2.0d", reborn)):
        (todo / f"{i:05d}").rename(claims / f"{i:05d}.{name}")
    os.utime(claims / "00001.far.away.1.0c", (old, old))
    claim = tasks.claim()
    assert claim == 4
    tasks.recover()
    claimed_names = {p.name.rpartition(".")[0] for p in claims.iterdir()}
    assert claimed_names == {"00002.far.away.2", f"00004.{host}.{os.getpid()}"}
    assert {"00000", "00001", "00003"} <= {p.name for p in todo.iterdir()}
    tasks.release(claim)
    assert (todo / "00004").exists()


@pytest.mark.parametrize("number", ["0", "4294967295", "9" * 10, "9" * 100])
def test_claims_of_missing_processes_are_released(
    tasks: TaskFolder, number: str
) -> None:
    todo, host = tasks.path / "todo", os.uname().nodename
    claim = tasks.path / "claimed" / f"00000.{host}.{number}.0a"
    (todo / "00000").rename(claim)
    tasks.recover()
    assert (todo / "00000").exists()


def test_finished_tasks_ignore_other_files(tasks: TaskFolder) -> None:
    task = tasks.claim()
    assert task == 0
    tasks.finish(task, {"x": [1.0]})
    (tasks.path / "todo" / "00000").touch()
    (tasks.path / "claimed" / "00000.far.away.3.0e").touch()
    (tasks.path / "todo" / "00007").unlink()  # removed by somebody
    second = TaskFolder(tasks.path, tasks.n_tasks, tasks.seal)
    second.recover()
    assert list(iter(second.claim, None)) == list(range(1, 20))
    assert second.done_tasks() == {0}
    assert second.result(0) == {"x": [1.0]}
    (tasks.path / "done" / "00000.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        second.result(0)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no sweep at"):
        runs.sweep_dataset(tmp_path)
    (tmp_path / "sweep.json").write_text("[]")
    with pytest.raises(StoreError, match="damaged"):
        runs.sweep_dataset(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("done/00000.json", "{}", "is damaged"),
        ("done/00000.json", '{"cell": [0], "ending": []}', "is damaged"),
        ("sweep.json", '{"schema": 1}', "written by version 0.1"),
        ("sweep.json", '{"schema": 3}', "is damaged"),
        ("sweep.json", '{"schema": 4}', "has schema 4"),
    ],
)
def test_a_damaged_sweep_gives_one_line(cli: Run, file: str, text: str, message: str):
    over = ("--measure", "gaussian", "--t", "1", "--over", "cov=1|2", "--out", "s")
    assert cli("sweep", *over).code == 0
    Path("s", file).write_text(text)
    for command in (("sweep", "s"), ("plot", "s")):
        result = cli(*command)
        assert result.code == 7
        assert message in result.err
        assert result.err.count("\n") == 1


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of two cells."""
    path = tmp_path_factory.mktemp("small") / "s"
    axes = parse_axes("cov=1|2")
    runs.sweep(parse({**BASE, "A": -1.0, "t": 0.5}), axes, out=path, chunk=1)
    return path


@pytest.mark.parametrize("name", ["sweep.json", "done/00000.json"])
def test_every_flipped_bit_of_a_sweep_is_detected(
    small: Path, tmp_path: Path, name: str
) -> None:
    """A flip is rejected, or harmless: blanks between two values."""
    path = Path(shutil.copytree(small, tmp_path / "s"))
    table, content = (path / "table.csv").read_bytes(), (path / name).read_bytes()
    draw, errors = random.Random(5), []
    for _ in range(120):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        (path / name).write_bytes(damaged)
        try:
            SweepStore.open(path).write_table()
        except StoreError as error:
            errors.append(str(error))
        assert (path / "table.csv").read_bytes() == table
    assert len(errors) > 100
    assert not any("\n" in line for line in errors)


def test_an_edited_record_of_a_sweep_is_rejected(small: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(small, tmp_path / "s"))
    text = (path / "sweep.json").read_text()
    (path / "sweep.json").write_text(text.replace('"A": -1.0', '"A": -2.0'))
    with pytest.raises(StoreError, match="is damaged"):
        SweepStore.open(path)


def test_a_result_of_another_cell_or_sweep_is_rejected(
    small: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(small, tmp_path / "s"))
    shutil.copy(path / "done" / "00001.json", path / "done" / "00000.json")
    with pytest.raises(StoreError, match="is damaged"):
        SweepStore.open(path).rows()


@pytest.mark.parametrize("part", ["sweep.json", "done", "done/00000.json", "claimed"])
def test_no_link_in_a_sweep_is_followed(small: Path, tmp_path: Path, part: str) -> None:
    path = Path(shutil.copytree(small, tmp_path / "s"))
    (path / part).rename(tmp_path / "elsewhere")
    (path / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        SweepStore.open(path).rows()


@pytest.mark.parametrize("exists", [True, False])
def test_no_link_among_tasks_is_written_through(
    tasks: TaskFolder, tmp_path: Path, exists: bool
) -> None:
    target = tmp_path / "precious"
    if exists:
        target.touch()
        os.utime(target, (0, 0))
    (tasks.path / ".clock").symlink_to(target)
    with pytest.raises(StoreError, match=r"clock` is a link"):
        tasks.recover()
    (tasks.path / ".clock").unlink()
    (tasks.path / "todo" / "00000").unlink()
    (tasks.path / "todo" / "00000").symlink_to(target)
    assert tasks.claim() == 0
    tasks.touch(0)
    tasks.recover()
    assert tasks.claim() == 1
    assert target.exists() == exists
    assert not exists or target.stat().st_mtime == 0


def test_axes_round_trip() -> None:
    texts = ("A=-2:2:3", "epsilon=0.1:10:3:log", "mask=null|causal", "K[0,1]=1|2.5")
    axes = parse_axes(*texts, "V=[[1,0],[0,2]]|[[1,1],[0,2]]")
    assert validate_axes([axis.as_json() for axis in axes], Path("s")) == axes


def test_foreign_files_in_a_sweep_are_kept(cli: Run):
    over = ("--measure", "gaussian", "--t", "1", "--over", "cov=1|2", "--out", "s")
    assert cli("sweep", *over).code == 0
    for name in ("done/00001 2.json", "todo/7.tmp", "claimed/copy of 00000"):
        Path("s", name).touch()
    assert cli("sweep", "s").code == 0
    assert cli("plot", "s").code == 0
