"""Processes and threads at work: answers, losses, endings."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from processes import has_ended, wait_for

from meanfield.errors import InvalidInputError
from meanfield.workers import Processes, WorkerLost, threads

PROMPT = 5.0  # seconds, most of them for a busy machine
PARENT = """
import time
from meanfield.workers import Processes
from tests.test_workers import work_forever
with Processes(2) as pool:
    for name in ("one", "two"):
        pool.submit(work_forever, {folder!r}, name)
    next(pool.answers())
"""


def double(x: int) -> int:
    return 2 * x


def raise_error(x: int) -> int:
    raise InvalidInputError(f"{x} is rejected.")


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def leave_in_words(words: str) -> None:
    print(words)  # noqa: T201 - as a package would
    os._exit(3)


def identity() -> int:
    return os.getpid()


def path_and_value(name: str) -> tuple[list[str], str | None]:
    return sys.path, os.environ.get(name)


def work_forever(folder: str, name: str) -> None:
    """Works forever, and notes when it is stopped."""
    try:
        Path(folder, f"{name}.{os.getpid()}").touch()
        time.sleep(600)
    finally:
        Path(folder, f"{name}.undone").touch()


def ready(file: Path) -> None:
    with file.open("a") as stream:
        stream.write("ready\n")


def working_processes(folder: Path) -> list[int]:
    """The processes that are working."""
    suffixes = (file.suffix[1:] for file in folder.iterdir())
    return [int(suffix) for suffix in suffixes if suffix.isdigit()]


def test_every_call_is_answered_by_its_number_in_few_processes(tmp_path: Path) -> None:
    with Processes[int](2, initializer=partial(ready, tmp_path / "log")) as pool:
        for x in range(7):
            pool.submit(double, x)
        answers = list(pool.answers())
        assert sorted(a.number for a in answers) == list(range(7))
        assert all(a.result == 2 * a.number for a in answers)
        assert list(pool.answers()) == []
    assert (tmp_path / "log").read_text() == "ready\n" * 2


def test_exceptions_of_a_call_are_raised_and_other_calls_finish() -> None:
    with Processes[int](1) as pool:
        pool.submit(raise_error, 3)
        pool.submit(double, 4)
        failure, doubled_answer = pool.answers()
    with pytest.raises(InvalidInputError, match="3 is rejected") as error_info:
        _ = failure.result
    assert "in raise_error" in "".join(error_info.value.__notes__)
    assert doubled_answer.result == 8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (partial(die, signal.SIGKILL), "ended by signal 9"),
        (partial(leave_in_words, "memory\nis full\n"), "is full"),
        (partial(leave_in_words, ""), "exit code 3"),
    ],
)
def test_a_lost_process_is_reported_and_replaced(call: Callable, words: str) -> None:
    with Processes(1) as pool:
        for function in (call, identity, identity):
            pool.submit(function)
        lost_answer, *rest = pool.answers()
    with pytest.raises(WorkerLost, match=f"^{words}$"):
        _ = lost_answer.result
    assert rest[0].result == rest[1].result != os.getpid()


def test_an_interrupt_of_a_worker_does_not_interrupt_the_caller() -> None:
    with Processes(1) as pool:
        pool.submit(die, signal.SIGINT)
        pool.submit(identity)
        failure, answer = pool.answers()
    assert failure.error is None
    assert answer.result != os.getpid()


def test_a_process_that_dies_between_two_calls_is_replaced() -> None:
    with Processes(1) as pool:
        pool.submit(identity)
        (first,) = pool.answers()
        os.kill(first.result, signal.SIGKILL)
        wait_for(lambda: has_ended(first.result))
        pool.submit(identity)
        pool.submit(identity)
        last = [answer for answer in pool.answers() if answer.error is None][-1]
    assert last.result != first.result


def test_a_process_has_the_path_of_this_one_and_the_environment_given() -> None:
    environment = {**os.environ, "MEANFIELD_TEST_WORKER": "here"}
    with Processes(1, environment=environment) as pool:
        pool.submit(path_and_value, "MEANFIELD_TEST_WORKER")
        (answer,) = pool.answers()
    assert answer.result == (sys.path, "here")


def test_a_timeout_stops_the_work(tmp_path: Path) -> None:
    begin = time.monotonic()
    with Processes(1) as pool:
        pool.submit(work_forever, str(tmp_path), "slow")
        assert list(pool.answers(0.0)) == []
        wait_for(lambda: bool(working_processes(tmp_path)))
        stop = time.monotonic()
    assert time.monotonic() - stop < PROMPT
    assert stop - begin < 60
    assert (tmp_path / "slow.undone").exists()
    assert all(has_ended(pid) for pid in working_processes(tmp_path))


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    root = str(Path(__file__).parent.parent)
    code = PARENT.format(folder=str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root}/tests"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as parent:
        wait_for(lambda: len(working_processes(tmp_path)) == 2)
        parent.kill()
    has_all_ended = lambda: all(has_ended(pid) for pid in working_processes(tmp_path))
    wait_for(has_all_ended)
    assert has_all_ended()


def test_threads_are_not_awaited_and_pending_calls_dropped() -> None:
    calls: list[int] = []
    begin = time.monotonic()
    with threads(1) as pool:
        pool.submit(time.sleep, 3)
        pool.submit(calls.append, 1)
    assert time.monotonic() - begin < 2
    pool.shutdown()
    assert calls == []
