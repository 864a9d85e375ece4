"""A folder of numbered tasks that several processes can work on in parallel."""

import contextlib
import json
import os
import re
import secrets
import socket
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meanfield._writing import writing
from meanfield.errors import InputFileError, InvalidInputError, StoreError

from ._places import check_no_links
from ._schema import SWEEP_SCHEMA
from .disk import (
    LOCK,
    add_digest,
    clear_drafts,
    flush,
    json_digest,
    names_at,
    place_file,
    place_folder,
    read_object,
    read_record,
    replace_text,
    strip_digest,
    touch,
    unreadable_error,
    version_0_1_error,
)

OLD_SCHEMA, RENAMED_SCHEMA = 1, 2  # the schemas that versions 0.1 and 0.2 wrote
HEARTBEAT_TIMEOUT = 600.0  # seconds of silence after which a worker counts as lost
_REMEDY = "Delete it to compute it again, or restore it from a copy"
_TODO_DIR, _CLAIMED_DIR, _DONE_DIR = "todo", "claimed", "done"
# The names of files in each folder, in the order in which tasks move. Files with other
# names come from editors, file systems or cloud clients.
_PATTERNS = {
    _TODO_DIR: re.compile(r"\d+"),
    _CLAIMED_DIR: re.compile(r"\d+\..+\.\d{1,10}\.[0-9a-f]+"),
    _DONE_DIR: re.compile(r"\d+\.json"),
}


class TaskFolder:
    """Numbered tasks; each is waiting, claimed by a worker, or done.

    A task changes its state by a rename, which only one worker can do, so that two
    workers do not take the same task. If two still do, because one was wrongly
    considered lost, both write the same bytes. The folder `done` holds only complete
    files. A task with a file there is done, whatever else exists. There are no locks,
    so a task folder also works on network disks.

    Attributes:
        path: a folder with a record and the folders `todo`, `claimed` and `done`.
        n_tasks: the number of tasks.
        seal: the digest of the record, which the digest of each result includes.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import (
        ...     SWEEP_SCHEMA,
        ...     TaskFolder,
        ...     create_tasks,
        ...     read_tasks,
        ... )
        >>> path = Path("squares")
        >>> create_tasks(path, {"schema": SWEEP_SCHEMA}, "task.json", 2)
        >>> record, seal = read_tasks(path, "task.json")
        >>> folder = TaskFolder(path, 2, seal)
        >>> task = folder.claim()
        >>> folder.finish(task, {"square": task**2})
        >>> folder.done_tasks() == {task}, folder.result(task)["square"] == task**2
        (True, True)
    """

    def __init__(self, path: Path, n_tasks: int, seal: str) -> None:
        self.path = path
        self.n_tasks = n_tasks
        self.seal = seal
        self._host = socket.gethostname()
        self._life = secrets.token_hex(4)
        self._queue: deque[str] = deque()

    def claim(self) -> int | None:
        """Claims a task for this process and returns it; `None` if none is left."""
        with writing(self.path):
            if not self._queue:
                self._queue.extend(map(_name, sorted(self._tasks_in(_TODO_DIR))))
            while self._queue:
                name = self._queue.popleft()
                if self._take(name):
                    return int(name)
        return None

    def touch(self, task: int) -> None:
        """Sends a heartbeat: this process is still working on a task."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._claim_path(task), follow_symlinks=False)

    def release(self, task: int) -> None:
        """Gives up this process's claim on a task, unless the task is done."""
        self._unclaim(self._claim_path(task))

    def finish(self, task: int, result: Mapping[str, Any]) -> None:
        """Stores the result of a task, which consists of JSON values.

        Raises:
            ResourceError: if it cannot be written.
        """
        text = json.dumps(add_digest(result, self._digest(task)), allow_nan=False)
        target = self.path / _DONE_DIR / f"{_name(task)}.json"
        place_file(target, lambda stream: stream.write(text.encode()))
        self._claim_path(task).unlink(missing_ok=True)

    def done_tasks(self) -> set[int]:
        """The tasks that are done."""
        return self._tasks_in(_DONE_DIR)

    def result(self, task: int) -> dict[str, Any]:
        """The result of a task, as stored by `finish`.

        Raises:
            StoreError: if the file is damaged.
        """
        file = self.path / _DONE_DIR / f"{_name(task)}.json"
        try:
            values = read_object(file, _REMEDY)
        except FileNotFoundError as error:
            raise unreadable_error(file, error) from error
        return strip_digest(file, values, self._digest(task), remedy=_REMEDY)

    def _digest(self, task: int) -> Callable[[Mapping[str, Any]], str]:
        """A digest function that is specific to this task of this sweep."""
        place = {"seal": self.seal, "task": task}
        return lambda result: json_digest({**place, "result": result})

    def recover(self) -> None:
        """Puts back tasks whose workers are lost, and tasks that were deleted.

        A worker on this machine is lost if its process has ended. Any worker is lost
        after ten minutes without a heartbeat, by the clock of the disk.
        """
        with writing(self.path):
            clear_drafts(self.path / _DONE_DIR)
            disk_time = touch(self.path / ".clock")
            for claim in (self.path / _CLAIMED_DIR).iterdir():
                if not _PATTERNS[_CLAIMED_DIR].fullmatch(claim.name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if self._is_lost(claim.name, disk_time - claim.lstat().st_mtime):
                        self._unclaim(claim)
            # Folders are read in the order in which tasks move, so that no moving task
            # is missed.
            tasks_on_disk = set[int]().union(*map(self._tasks_in, _PATTERNS))
            for task in set(range(self.n_tasks)) - tasks_on_disk:
                touch(self.path / _TODO_DIR / _name(task))

    def _tasks_in(self, state: str) -> set[int]:
        """The tasks in one of the folders `todo`, `claimed` and `done`."""
        names = (path.name for path in (self.path / state).iterdir())
        valid_names = (name for name in names if _PATTERNS[state].fullmatch(name))
        numbers = {int(name.partition(".")[0]) for name in valid_names}
        return {task for task in numbers if task < self.n_tasks}

    def _take(self, name: str) -> bool:
        source = self.path / _TODO_DIR / name
        try:
            if (self.path / _DONE_DIR / f"{name}.json").exists():
                source.unlink()
                return False
            os.utime(source, follow_symlinks=False)  # the first heartbeat
            source.rename(self._claim_path(int(name)))
        except FileNotFoundError:  # another worker took the task
            return False
        return True

    def _unclaim(self, claim: Path) -> None:
        name = claim.name.partition(".")[0]
        with contextlib.suppress(FileNotFoundError):
            if (self.path / _DONE_DIR / f"{name}.json").exists():
                claim.unlink()
            else:
                claim.rename(self.path / _TODO_DIR / name)

    def _claim_path(self, task: int) -> Path:
        owner = f"{self._host}.{os.getpid()}.{self._life}"
        return self.path / _CLAIMED_DIR / f"{_name(task)}.{owner}"

    def _is_lost(self, name: str, silence: float) -> bool:
        owner, _, life = name.partition(".")[2].rpartition(".")
        host, _, process = owner.rpartition(".")
        if host != self._host or silence > HEARTBEAT_TIMEOUT:
            return silence > HEARTBEAT_TIMEOUT
        # If a claim has the ID of this process but another `life`, the worker that made
        # it has ended.
        is_reused = int(process) == os.getpid() and life != self._life
        return is_reused or not _is_alive(int(process))


def create_tasks(
    path: Path, record: Mapping[str, Any], name: str, n_tasks: int
) -> None:
    """Creates a folder of tasks atomically; all its tasks are still to do.

    Args:
        path: a folder that does not exist or is empty; its parents are created.
        record: JSON values that describe the tasks.
        name: the name of the file for the record.
        n_tasks: the number of tasks.

    Raises:
        InvalidInputError: if `path` has other contents.
        ResourceError: if the folder cannot be written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import SWEEP_SCHEMA, create_tasks
        >>> create_tasks(Path("squares"), {"schema": SWEEP_SCHEMA}, "task.json", 3)
        >>> len(list(Path("squares/todo").iterdir()))
        3
    """
    check_task_folder(path, name)
    text = json.dumps(add_digest(record), indent=1, allow_nan=False)

    def fill(draft: Path) -> None:
        for state in _PATTERNS:
            (draft / state).mkdir()
        for task in range(n_tasks):
            (draft / _TODO_DIR / _name(task)).touch()
        replace_text(draft / name, text)
        flush(draft / _TODO_DIR)
        (draft / LOCK).unlink(missing_ok=True)  # only a draft needs a lock

    with writing(path):
        target = Path(os.path.realpath(path))
        try:
            place_folder(target, fill).release()
        except OSError:
            if not (target / name).exists():  # if it exists, another process created it
                raise


def read_tasks(path: Path, name: str) -> tuple[dict[str, Any], str]:
    """The record of a folder of tasks, and the digest of the record.

    Raises:
        InputFileError: if there is no such folder.
        StoreError: if it is damaged, or has an unknown schema.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import SWEEP_SCHEMA, create_tasks, read_tasks
        >>> record = {"schema": SWEEP_SCHEMA, "title": "squares"}
        >>> create_tasks(Path("squares"), record, "task.json", 2)
        >>> read_tasks(Path("squares"), "task.json")[0]["title"]
        'squares'
    """
    if not (path / name).exists():
        raise InputFileError(
            f"There is no sweep at `{path}`: no file `{name}` was found there; "
            "name the folder that `sweep --out` wrote."
        )
    _check_folders(path)
    record = read_record(path / name, SWEEP_SCHEMA, OLD_SCHEMA, (RENAMED_SCHEMA,))
    if record.get("schema") == OLD_SCHEMA:
        raise version_0_1_error(path)
    return record, json_digest(record)


def _check_folders(path: Path) -> None:
    for state in _PATTERNS:
        folder = path / state
        check_no_links(path, folder)
        if not folder.is_dir():
            raise StoreError(
                f"`{path}` is damaged: its folder `{state}` is missing. Restore that "
                "folder from a copy, or create it again if it was empty."
            )


def check_task_folder(path: Path, name: str) -> None:
    """Checks that a path is free or holds a folder of tasks.

    Raises:
        InvalidInputError: if it holds something else.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import check_task_folder
        >>> check_task_folder(Path("nothing"), "task.json")  # nothing is there yet
    """
    if names_at(path) and not (path / name).exists():
        raise InvalidInputError(
            f"`{path}` is not empty and holds no sweep; choose a new or empty folder."
        )


def _name(task: int) -> str:
    return f"{task:05d}"


def _is_alive(process: int) -> bool:
    if process == 0:  # for `os.kill`, 0 means our own process group
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: number too large
        return False
    except PermissionError:
        return True
    return True
