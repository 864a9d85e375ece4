"""Measuring statements, by this process or by several, with progress."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from meanfield._programs import forget_programs
from meanfield.cli.process._plugins import begin
from meanfield.cli.terminal._console import RunProgress
from meanfield.errors import ResourceError
from meanfield.theorems import Outcome, Size, measured, statements
from meanfield.workers import Processes, WorkerLost

APART = 4  # how far files lie from those that are measured with them


class Work(NamedTuple):
    """What is to be measured.

    Attributes:
        ids: of the statements.
        size: of each measurement.
        seed: of every draw.
        jobs: processes at work.
        witnesses: by statement and role, of a report that is replayed.
    """

    ids: tuple[str, ...]
    size: Size
    seed: int
    jobs: int
    witnesses: Mapping[str, Any]

    @property
    def calls(self) -> list[list[tuple]]:
        """The arguments of `measured` for each statement, file by file.

        Those of a file share programs: a process that measures all compiles them once.
        Neighbouring files share some, too, which the later finds on disk if the earlier
        is not at it still: so every fourth file comes first, then those next to them.
        """
        by_file: dict[str, list[tuple]] = {}
        for name in self.ids:
            call = (name, self.size, self.seed, self.witnesses.get(name))
            by_file.setdefault(statements[name].measure.__module__, []).append(call)
        files = list(by_file.values())
        return [calls for k in range(APART) for calls in files[k::APART]]


def outcomes(work: Work, plugins: Sequence[Path]) -> list[Outcome]:
    """Every statement measured, with progress.

    Raises:
        ResourceError: if a process dies.
    """
    results: list[Outcome] = []
    alone = work.jobs == 1 or len(work.ids) == 1
    here = (_measure(*arguments) for calls in work.calls for arguments in calls)
    source = here if alone else _elsewhere(work, plugins)
    with closing(source), RunProgress("verify") as progress:
        for outcome in source:
            results.append(outcome)
            failures = sum(not result.passed for result in results)
            suffix = f", {failures} not as they must be" if failures else ""
            words = f"{len(results)} of {len(work.ids)} statements{suffix}"
            progress.show(len(results) / len(work.ids), f"{words}  {outcome.id}")
    return results


def _measure(*arguments: Any) -> Outcome:
    forget_programs()
    return measured(*arguments)


def _measure_file(calls: list[tuple]) -> list[Outcome]:
    return [_measure(*arguments) for arguments in calls]


def _elsewhere(work: Work, plugins: Sequence[Path]) -> Generator[Outcome]:
    ready = partial(begin, "double", list(plugins))
    count = min(work.jobs, len(work.calls))
    with Processes[list[Outcome]](count, ready=ready) as processes:
        for calls in work.calls:
            processes.give(_measure_file, calls)
        try:
            for answer in processes.answers():
                yield from answer.result
        except WorkerLost as error:
            raise ResourceError(
                f"A process that measured statements was lost ({error}), for memory "
                "as a rule; use fewer `--jobs`."
            ) from error
