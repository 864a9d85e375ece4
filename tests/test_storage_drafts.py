"""Drafts of killed writers are removed by the next; removed stores are detected."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from storage_run import FINISHED_ENDING, initial_frame, new_store, segment_after, writer

import meanfield.storage.disk._locks as locks
from meanfield.errors import InvalidInputError, StoreError
from meanfield.storage import RunStore, TaskFolder, create_tasks, replace_file
from meanfield.storage.disk._drafts import clear_drafts, draft_folder, place_folder
from meanfield.storage.disk._locks import Lock

NAME = ".run.meanfield-draft-0123456789abcdef"


def drafts(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.meanfield-draft-*"))


def test_drafts_of_killed_writers_are_removed_by_the_next(tmp_path: Path) -> None:
    killed_at_its_end = (
        "replace = os.replace",
        "os.replace = lambda old, new, **_: os.kill(os.getpid(), signal.SIGKILL) "
        "if Path(new).name == 'run' else replace(old, new)",
    )
    with writer(tmp_path / "run", *killed_at_its_end) as process:
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert drafts(tmp_path)
    new_store(tmp_path / "other")
    assert drafts(tmp_path) == []


def test_drafts_of_live_writers_are_kept(tmp_path: Path) -> None:
    draft, lock = draft_folder(tmp_path / "run")
    clear_drafts(tmp_path)
    assert draft.exists()
    lock.release()
    clear_drafts(tmp_path)
    assert not draft.exists()

    def write(stream: object) -> None:
        replace_file(tmp_path / "b", lambda stream: stream.write(b"b"))
        assert len(drafts(tmp_path)) == 1

    replace_file(tmp_path / "a", write)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    ["notes.txt", "data/chapter1", "data/static/x/notes", "todo/x", "nothing", "link"],
)
def test_foreign_files_are_not_removed_as_drafts(tmp_path: Path, content: str) -> None:
    """However old; an empty one may belong to a writer that has just begun."""
    place, home = tmp_path / "here" / NAME, tmp_path / "home"
    place.parent.mkdir()
    home.mkdir()
    (home / ".lock").touch()
    if content == "link":
        place.symlink_to(home)
    else:
        place.mkdir()
    if content not in ("link", "nothing"):
        (place / content).parent.mkdir(parents=True, exist_ok=True)
        (place / content).touch()
        (place / ".lock").touch()
        os.utime(place, (0, 0))
    clear_drafts(place.parent)
    assert place.exists()
    assert (home / ".lock").exists()


def test_user_files_named_like_drafts_are_kept(tmp_path: Path) -> None:
    """A date has eight digits, which are also hexadecimal."""
    (tmp_path / ".report.draft-20240101").touch()
    (tmp_path / ".picture.png.draft-20240101").touch()
    thesis = tmp_path / ".thesis.draft-20231231"
    (thesis / "data").mkdir(parents=True)
    (thesis / "data" / "chapter1").touch()
    os.utime(thesis, (0, 0))
    replace_file(tmp_path / "picture.png", lambda stream: stream.write(b"new"))
    new_store(tmp_path / "run")
    assert (thesis / "data" / "chapter1").exists()
    assert len(list(tmp_path.glob(".*.draft-*"))) == 3


def test_storing_a_result_does_not_scan_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a sweep takes quadratic time; `recover` scans once."""
    create_tasks(tmp_path / "sweep", {"schema": 2}, "sweep.json", 2)
    tasks = TaskFolder(tmp_path / "sweep", 2, "seal")
    left = tmp_path / "sweep" / "done" / ".00000.json.meanfield-draft-0123456789abcdef"
    left.touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", None)
        tasks.finish(0, {})
    tasks.recover()
    assert not left.exists()
    assert tasks.done_tasks() == {0}


def test_an_old_draft_without_a_lock_is_removed(tmp_path: Path) -> None:
    """Versions before locks wrote such drafts, and were killed too."""
    (tmp_path / NAME / "data").mkdir(parents=True)
    os.utime(tmp_path / NAME, (0, 0))
    create_tasks(tmp_path / "sweep", {"schema": 2}, "sweep.json", 3)
    assert drafts(tmp_path) == []
    assert not (tmp_path / "sweep" / ".lock").exists()


def test_the_second_of_two_creators_of_a_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error must not be a full disk."""

    def come_first(folder: Path) -> None:
        monkeypatch.undo()
        new_store(folder / "run").close()

    monkeypatch.setattr("meanfield.storage.disk._drafts.clear_drafts", come_first)
    with pytest.raises(InvalidInputError, match="run` already holds a run"):
        new_store(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    RunStore.open(tmp_path / "run").check()


REMOVALS: dict[str, Callable[[Path], object]] = {
    "the store": shutil.rmtree,
    "moved": lambda run: run.rename(run.with_name("elsewhere")),
    "its lock": lambda run: (run / ".lock").unlink(),
    "its record": lambda run: (run / "commit.json").unlink(),
    "its segments": lambda run: shutil.rmtree(run / "data" / "segments"),
    "a segment": lambda run: shutil.rmtree(run / "data" / "segments" / "00000"),
    "an array": lambda run: shutil.rmtree(run / "data" / "segments" / "00000" / "x"),
    "its fixed arrays": lambda run: shutil.rmtree(run / "data" / "static"),
}


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS.keys())
def test_removal_under_a_writer_is_detected(
    tmp_path: Path, remove: Callable[[Path], object]
) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    last = store.last_frame()
    remove(tmp_path / "run")
    with pytest.raises(StoreError, match=r"removed or moved|no `commit.json`"):
        store.append(segment_after(last), {}, FINISHED_ENDING)


def test_a_replaced_store_is_not_written_to(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    second = new_store(tmp_path / "run")
    with pytest.raises(StoreError, match="removed or moved"):
        store.append(segment_after(initial_frame()), {})
    second.append(segment_after(initial_frame()), {})
    RunStore.open(tmp_path / "run").check()


@pytest.mark.parametrize("struck", ["fcntl.flock", "weakref.finalize"])
def test_an_interrupted_lock_can_be_released_and_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, struck: str
) -> None:
    module, name = struck.split(".")
    home = getattr(locks, module)
    real = getattr(home, name)

    def raise_interrupt(*arguments: object) -> None:
        real(*arguments)
        raise KeyboardInterrupt

    lock = Lock(tmp_path / ".lock")
    with monkeypatch.context() as patch:
        patch.setattr(home, name, raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
    lock.acquire()
    with pytest.raises(StoreError, match="another process"):
        Lock(tmp_path / ".lock").acquire()
    lock.release()
    lock.release()
    Lock(tmp_path / ".lock").acquire()


def test_a_signal_before_its_lock_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(_: Lock) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lock, "acquire", stop)
    with pytest.raises(KeyboardInterrupt):
        place_folder(tmp_path / "run", lambda draft: None)
    assert list(tmp_path.iterdir()) == []
