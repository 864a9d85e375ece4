"""Checks statements in this process or in several, with a progress bar."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from meanfield._programs import forget_programs
from meanfield.cli.process._plugins import begin
from meanfield.cli.terminal._console import RunProgress
from meanfield.errors import ResourceError
from meanfield.theorems import Outcome, Size, statements, verify_statement
from meanfield.workers import Processes, WorkerLost

STRIDE = 4  # step from one file to the next in the order of measurement


class Work(NamedTuple):
    """Statements to check, and how to check them.

    Attributes:
        ids: ids of the statements.
        size: problem size of each measurement.
        seed: seed of all random numbers.
        jobs: number of worker processes.
        witnesses: witnesses of a replayed report, by statement and role of the trial.
    """

    ids: tuple[str, ...]
    size: Size
    seed: int
    jobs: int
    witnesses: Mapping[str, Any]

    @property
    def calls(self) -> list[list[tuple]]:
        """The arguments of all calls of `verify_statement`, in one list for each file.

        The statements of a file share compiled programs, so one process checks them
        all. Neighbouring files also share some programs. The order of the files is 0,
        4, 8, …, then 1, 5, 9, …, and so on: a file has usually cached its programs on
        disk before its neighbour begins.
        """
        calls_by_file: dict[str, list[tuple]] = {}
        for name in self.ids:
            call = (name, self.size, self.seed, self.witnesses.get(name))
            file = statements[name].measure.__module__
            calls_by_file.setdefault(file, []).append(call)
        files = list(calls_by_file.values())
        return [calls for k in range(STRIDE) for calls in files[k::STRIDE]]


def outcomes(work: Work, plugins: Sequence[Path]) -> list[Outcome]:
    """Checks all statements, with a progress bar.

    Raises:
        ResourceError: if a worker process dies.
    """
    results: list[Outcome] = []
    is_serial = work.jobs == 1 or len(work.ids) == 1
    local_outcomes = (
        _measure(*arguments) for calls in work.calls for arguments in calls
    )
    source = local_outcomes if is_serial else _measure_in_parallel(work, plugins)
    with closing(source), RunProgress("verify") as progress:
        for outcome in source:
            results.append(outcome)
            failures = sum(not result.has_passed for result in results)
            suffix = f", {failures} failed" if failures else ""
            status = f"{len(results)} of {len(work.ids)} statements{suffix}"
            progress.show(len(results) / len(work.ids), f"{status}  {outcome.id}")
    return results


def _measure(*arguments: Any) -> Outcome:
    forget_programs()
    return verify_statement(*arguments)


def _measure_file(calls: list[tuple]) -> list[Outcome]:
    return [_measure(*arguments) for arguments in calls]


def _measure_in_parallel(work: Work, plugins: Sequence[Path]) -> Generator[Outcome]:
    ready = partial(begin, "double", list(plugins))
    count = min(work.jobs, len(work.calls))
    with Processes[list[Outcome]](count, initializer=ready) as processes:
        for calls in work.calls:
            processes.submit(_measure_file, calls)
        try:
            for answer in processes.answers():
                yield from answer.result
        except WorkerLost as error:
            raise ResourceError(
                f"A process that measured statements was lost ({error}), probably for "
                "lack of memory. Use fewer `--workers`."
            ) from error
