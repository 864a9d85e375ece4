"""Committed data is read back bit for bit after kills and errors."""

import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from storage_run import (
    LENGTH,
    SEGMENTS,
    assert_prefix,
    assert_same_run,
    has_same_bytes,
    initial_frame,
    new_store,
    next_frame,
    segment_after,
    write,
    writer,
)

from meanfield.errors import InvalidInputError, ResourceError, StoreError
from meanfield.storage import RunStore
from meanfield.storage._record import Record, write_record


def test_kill_between_chunks_and_commit_leaves_the_last_commit(
    tmp_path: Path, truth: Path
) -> None:
    path = tmp_path / "run"
    kill_at_third_commit = (
        "calls, replace = [], os.replace",
        "due = lambda target: Path(target).parent.name == 'run' and "
        "Path(target).name == 'commit.json' and (calls.append(0) or len(calls) == 3)",
        "os.replace = lambda old, new, **_: "
        "os.kill(os.getpid(), signal.SIGKILL) if due(new) else replace(old, new)",
    )
    with writer(path, *kill_at_third_commit) as process:
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert RunStore.open(path).frames == 2 * LENGTH
    assert (path / "data" / "segments" / "00002").exists()  # written, not committed
    assert_prefix(path, truth)
    write(path)
    assert_same_run(path, truth)


def test_kills_at_random_moments_never_change_the_run(
    tmp_path: Path, truth: Path
) -> None:
    path, moments = tmp_path / "run", random.Random(0)
    for _ in range(8):
        with writer(path) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0.0, 0.1))
            process.kill()
        assert_prefix(path, truth)
    write(path)
    assert_same_run(path, truth)


def test_a_kill_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "run"
    wait = "RunStore.last_frame = lambda _: (print('held', flush=True), time.sleep(60))"
    with writer(path, wait) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "held\n":
            pass
        with pytest.raises(StoreError, match="another process"):
            RunStore.open(path).claim()
        process.kill()
    RunStore.open(path).claim()


def test_last_frame_is_the_state_of_the_flow(truth: Path) -> None:
    store, frame = RunStore.open(truth), initial_frame()
    for _ in range(SEGMENTS * LENGTH):
        frame = next_frame(frame)
    last = store.last_frame()
    assert all(has_same_bytes(last[name], frame[name]) for name in frame)
    assert store.state == {"next": SEGMENTS * LENGTH}


def test_a_store_has_one_writer(tmp_path: Path) -> None:
    first = new_store(tmp_path / "run")
    second = RunStore.open(tmp_path / "run")
    with pytest.raises(StoreError, match="another process") as error_info:
        second.append(segment_after(initial_frame()), {})
    assert "\n" not in str(error_info.value)
    first.close()
    second.append(segment_after(initial_frame()), {})


def test_a_stale_writer_is_rejected(tmp_path: Path) -> None:
    first = new_store(tmp_path / "run")
    stale = RunStore.open(tmp_path / "run")
    with first:
        first.append(segment_after(initial_frame()), {"dt": float("nan")})
    with pytest.raises(StoreError, match="open it again"):
        stale.append({}, {})
    RunStore.open(tmp_path / "run").claim()


def test_an_uncertain_commit_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, commit = new_store(tmp_path / "run"), write_record

    def commit_and_fail(folder: Path, record: Record) -> None:
        commit(folder, record)
        raise ResourceError("The folder could not be flushed.")

    frames = segment_after(initial_frame())
    with monkeypatch.context() as patch:
        patch.setattr("meanfield.storage._store.write_record", commit_and_fail)
        with pytest.raises(ResourceError, match="flushed"):
            store.append(frames, {})
    with pytest.raises(StoreError, match="open it again"):
        store.append(frames, {})
    assert RunStore.open(tmp_path / "run").claim().frames == LENGTH


def test_a_reader_keeps_the_commit_it_opened(tmp_path: Path) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    reader = RunStore.open(tmp_path / "run")
    store.append(segment_after(store.last_frame()), {})
    assert reader.dataset().sizes["time"] == LENGTH
    assert RunStore.open(tmp_path / "run").dataset().sizes["time"] == 2 * LENGTH


@pytest.mark.parametrize("content", ["run", "notes.txt"])
def test_an_occupied_folder_is_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run"
    if content == "run":
        new_store(path)
    else:
        path.mkdir()
        (path / content).touch()
    before = sorted(path.rglob("*"))
    with pytest.raises(InvalidInputError, match="choose another"):
        new_store(path)
    assert sorted(path.rglob("*")) == before


def test_an_empty_folder_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert new_store(tmp_path / "run").frames == 0


def test_a_parent_that_cannot_be_written_is_a_resource_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot be written"):
        new_store(tmp_path / "file" / "run")
    with pytest.raises(ResourceError, match="cannot be written"):
        new_store(tmp_path / "file" / "deep" / "run")


def test_a_write_error_loses_only_the_segment(
    tmp_path: Path, limit_file_size: Callable[[int], None]
) -> None:
    store = new_store(tmp_path / "run")
    store.append(segment_after(initial_frame()), {})
    frames = segment_after(store.last_frame())
    limit_file_size(64)
    with pytest.raises(ResourceError, match="cannot be written"):
        store.append(frames, {})
    limit_file_size(resource.RLIM_INFINITY)
    RunStore.open(tmp_path / "run").check()
    assert store.frames == RunStore.open(tmp_path / "run").frames == LENGTH
    store.append(frames, {})
    assert store.frames == 2 * LENGTH
