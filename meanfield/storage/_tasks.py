"""A folder of numbered tasks that any number of processes work off together."""

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

from ._places import refuse_links
from ._schema import SWEEP_SCHEMA
from .disk import (
    LOCK,
    clear_drafts,
    flush,
    from_version_0_1,
    json_digest,
    names_at,
    place_file,
    place_folder,
    read_object,
    read_record,
    replace_text,
    sealed,
    touch,
    unreadable,
    unsealed,
)

OLD_SCHEMA = 1  # of version 0.1
SILENT = 600.0  # seconds without a sign of life after which a worker counts as lost
_AGAIN = "Delete it to have it computed again, or restore it from a copy"
_TODO, _CLAIMED, _DONE = "todo", "claimed", "done"
# Names of ours; others were put there by editors, file systems and clouds.
_OURS = {
    _TODO: re.compile(r"\d+"),
    _CLAIMED: re.compile(r"\d+\..+\.\d{1,10}\.[0-9a-f]+"),
    _DONE: re.compile(r"\d+\.json"),
}


class TaskFolder:
    """Tasks `0, 1, …` that are to do, claimed by a worker, or done, on any disk.

    A task moves by renames, of which one alone succeeds, so that two workers do not
    take the same; should they, because one was taken for lost, both write the same
    bytes. `done` holds whole files only, and what is there is done, whatever else lies
    around. Works on network folders: no locks.

    Attributes:
        path: a folder with a record and the folders `todo`, `claimed` and `done`.
        n_tasks: how many there are.
        seal: the digest of the record, which those of all results include.

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
        >>> sorted(folder.done()) == [task], folder.result(task)["square"] == task**2
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
        """A task that is now this process's own; `None` if none is left to take."""
        with writing(self.path):
            if not self._queue:
                self._queue.extend(_name(task) for task in sorted(self._in(_TODO)))
            while self._queue:
                name = self._queue.popleft()
                if self._take(name):
                    return int(name)
        return None

    def touch(self, task: int) -> None:
        """Says that this process still works on a task."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._claim(task), follow_symlinks=False)

    def release(self, task: int) -> None:
        """Puts a task that this process has claimed back, unless it is done."""
        self._return(self._claim(task))

    def finish(self, task: int, result: Mapping[str, Any]) -> None:
        """Stores the result of a task: JSON values.

        Raises:
            ResourceError: if it cannot be written.
        """
        text = json.dumps(sealed(result, self._digest(task)), allow_nan=False)
        target = self.path / _DONE / f"{_name(task)}.json"
        place_file(target, lambda stream: stream.write(text.encode()))
        self._claim(task).unlink(missing_ok=True)

    def done(self) -> set[int]:
        """The tasks that are done."""
        return self._in(_DONE)

    def result(self, task: int) -> dict[str, Any]:
        """What `finish` stored.

        Raises:
            StoreError: if the file is damaged.
        """
        file = self.path / _DONE / f"{_name(task)}.json"
        try:
            values = read_object(file, _AGAIN)
        except FileNotFoundError as error:
            raise unreadable(file, error) from error
        return unsealed(file, values, self._digest(task), mend=_AGAIN)

    def _digest(self, task: int) -> Callable[[Mapping[str, Any]], str]:
        """The digest of a result at its place: no other task's, no other sweep's."""
        place = {"seal": self.seal, "task": task}
        return lambda result: json_digest({**place, "result": result})

    def recover(self) -> None:
        """Puts back what lost workers have claimed, and what was deleted.

        A worker of this machine is lost if its process is gone; any other if it has
        given no sign of life for ten minutes, by the clock of the disk.
        """
        with writing(self.path):
            clear_drafts(self.path / _DONE)
            now = touch(self.path / ".clock")
            for claim in (self.path / _CLAIMED).iterdir():
                if not _OURS[_CLAIMED].fullmatch(claim.name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if self._is_lost(claim.name, now - claim.lstat().st_mtime):
                        self._return(claim)
            # In the order in which tasks move, so that none is missed on its way.
            known = self._in(_TODO) | self._in(_CLAIMED) | self._in(_DONE)
            for task in set(range(self.n_tasks)) - known:
                touch(self.path / _TODO / _name(task))

    def _in(self, state: str) -> set[int]:
        """The tasks in a state."""
        names = (path.name for path in (self.path / state).iterdir())
        ours = (name for name in names if _OURS[state].fullmatch(name))
        found = {int(name.partition(".")[0]) for name in ours}
        return {task for task in found if task < self.n_tasks}

    def _take(self, name: str) -> bool:
        source = self.path / _TODO / name
        try:
            if (self.path / _DONE / f"{name}.json").exists():
                source.unlink()
                return False
            os.utime(source, follow_symlinks=False)  # a claim begins alive
            source.rename(self._claim(int(name)))
        except FileNotFoundError:  # another was faster
            return False
        return True

    def _return(self, claim: Path) -> None:
        name = claim.name.partition(".")[0]
        with contextlib.suppress(FileNotFoundError):
            if (self.path / _DONE / f"{name}.json").exists():
                claim.unlink()
            else:
                claim.rename(self.path / _TODO / name)

    def _claim(self, task: int) -> Path:
        owner = f"{self._host}.{os.getpid()}.{self._life}"
        return self.path / _CLAIMED / f"{_name(task)}.{owner}"

    def _is_lost(self, name: str, silence: float) -> bool:
        owner, _, life = name.partition(".")[2].rpartition(".")
        host, _, process = owner.rpartition(".")
        if host != self._host or silence > SILENT:
            return silence > SILENT
        # An earlier process had the number of this one, and has ended.
        reborn = int(process) == os.getpid() and life != self._life
        return reborn or not _is_alive(int(process))


def create_tasks(
    path: Path, record: Mapping[str, Any], name: str, n_tasks: int
) -> None:
    """Makes a folder of tasks, all to do; it appears whole or not at all.

    Args:
        path: a folder that does not exist or is empty; its parents are made.
        record: JSON values about all tasks.
        name: of the file that holds them.
        n_tasks: the number of tasks.

    Raises:
        InvalidInputError: if something else is there.
        ResourceError: if it cannot be written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import SWEEP_SCHEMA, create_tasks
        >>> create_tasks(Path("squares"), {"schema": SWEEP_SCHEMA}, "task.json", 3)
        >>> len(list(Path("squares/todo").iterdir()))
        3
    """
    refuse_other(path, name)
    text = json.dumps(sealed(record), indent=1, allow_nan=False)

    def fill(draft: Path) -> None:
        for state in (_TODO, _CLAIMED, _DONE):
            (draft / state).mkdir()
        for task in range(n_tasks):
            (draft / _TODO / _name(task)).touch()
        replace_text(draft / name, text)
        flush(draft / _TODO)
        (draft / LOCK).unlink(missing_ok=True)  # what is whole needs none

    with writing(path):
        target = Path(os.path.realpath(path))
        try:
            place_folder(target, fill).release()
        except OSError:
            if not (target / name).exists():  # else another process was faster
                raise


def read_tasks(path: Path, name: str) -> tuple[dict[str, Any], str]:
    """The record of a folder of tasks, and its digest, the seal of all results.

    Raises:
        InputFileError: if there is none.
        StoreError: if it is damaged, or has a schema that is not known.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import SWEEP_SCHEMA, create_tasks, read_tasks
        >>> record = {"schema": SWEEP_SCHEMA, "what": "squares"}
        >>> create_tasks(Path("squares"), record, "task.json", 2)
        >>> read_tasks(Path("squares"), "task.json")[0]["what"]
        'squares'
    """
    if not (path / name).exists():
        raise InputFileError(
            f"There is no sweep at `{path}`: no `{name}` is there; "
            "name the folder that `sweep --out` wrote."
        )
    _check_folders(path)
    record = read_record(path / name, SWEEP_SCHEMA, OLD_SCHEMA)
    if record.get("schema") == OLD_SCHEMA:
        raise from_version_0_1(path)
    return record, json_digest(record)


def _check_folders(path: Path) -> None:
    for state in (_TODO, _CLAIMED, _DONE):
        folder = path / state
        refuse_links(path, folder)
        if not folder.is_dir():
            raise StoreError(
                f"`{path}` is damaged: it has no folder `{state}`. Restore it from a "
                "copy; if it was empty, make it again."
            )


def refuse_other(path: Path, name: str) -> None:
    """Refuses a place that holds anything but a folder of tasks.

    Raises:
        InvalidInputError: naming it.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.storage import refuse_other
        >>> refuse_other(Path("nothing"), "task.json")  # nothing is there yet
    """
    if names_at(path) and not (path / name).exists():
        raise InvalidInputError(
            f"`{path}` holds something else; choose a folder that is empty or new."
        )


def _name(task: int) -> str:
    return f"{task:05d}"


def _is_alive(process: int) -> bool:
    if process == 0:  # to the system our own group, and no worker
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # or a number of no process
        return False
    except PermissionError:
        return True
    return True
