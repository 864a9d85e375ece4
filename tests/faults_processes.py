"""Kills of commands with several processes: pools of workers, and groups.

A signal is sent to the command alone, to one of its processes, or to all of them. The
processes of a case are identified by their working folder.
"""

import os
import random
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from faults_checks import Truth, arrays, faults_of, litter, prefix_faults
from faults_commands import (
    LOOK,
    SIGNAL_CODES,
    SPEC,
    CommandResult,
    run_command,
    start_command,
    wait,
)
from faults_kills import frames_of
from processes import has_ended, is_at_work, processes_in, seconds_of

from meanfield.errors import MeanfieldError
from meanfield.storage.disk._locks import hold_lock

PATIENCE = 90.0  # processor seconds after which a command counts as hung
ORPHAN_AFTER = 20.0  # wall seconds without work after which an orphan is reported
FIRST_PACE = 12.0  # first guess of a command's processor seconds
LONG_SWEEP = ["--measure", "gaussian", "--d", "1", "--t", "0.5", "--chunk", "1"]
LONG_SWEEP += ["--over", "A=-1:2:20,cov=1:2:10"]
CHUNKS = 200
FRAMES = 41
PAGES = ["--html", "page.html", "--errata", "errata.md"]
STATEMENTS = ["castin2025:eq-2.2", "castin2025:lemma-4.1"]
POOLS = {
    "sweep": ["sweep", *LONG_SWEEP, "--workers", "2", "--out", "new"],
    "verify": ["verify", *STATEMENTS, "--workers", "2", *PAGES],
}
GROUPS = {
    "tokens": ["simulate", *SPEC, "--processes", "2", "--out", "new"],
    "draws": ["simulate", *SPEC, "--draws", "3", "--processes", "2", "--out", "new"],
}
VICTIMS = ("the command", "another", "all")
_PLACE = re.compile(rb"127\.0\.0\.1:(\d+)/(\d+)/2")


@dataclass(frozen=True)
class Strike:
    """A signal, and the processes that received it.

    Attributes:
        command: the process of the command itself.
        victim: one of `VICTIMS`.
        pids: the processes that existed when the signal was sent.
        struck: the processes that it was sent to.
        places: host and place of each among the group, by its number.
    """

    command: int
    number: signal.Signals
    victim: str
    pids: list[int] = field(default_factory=list)
    struck: list[int] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The name of the case."""
        late = "" if self.struck else ", too late"
        return f"{self.number.name} {self.victim}{late}"


def kill_pool(draw: random.Random, place: Path, truth: Truth, pace: dict[str, float]):
    """Sends a signal at a random moment to a command with a pool of workers."""
    name = draw.choice(list(POOLS))
    progress = lambda: len([*(place / "new/done").glob("*.json")]) / CHUNKS
    strike, result = _struck(
        draw, POOLS[name], place, pace, progress if name == "sweep" else None
    )
    actual = faults_of(result, _codes_of_pool(name, strike), PATIENCE)
    actual += _remains(place, strike)
    actual += {"sweep": _sweep_faults, "verify": _page_faults}[name](draw, place, truth)
    return f"{name} {strike.words}", result, actual


def kill_group(draw: random.Random, place: Path, truth: Truth, pace: dict[str, float]):
    """Sends a signal at a random moment to a command run by a group of processes."""
    name = draw.choice(list(GROUPS))
    progress = lambda: frames_of(place / "new") / FRAMES
    strike, result = _struck(draw, GROUPS[name], place, pace, progress)
    actual = faults_of(result, _codes_of_group(strike), PATIENCE)
    actual += _name_faults(result, strike) + _remains(place, strike)
    actual += _run_faults(draw, place, truth.home / name, name)
    return f"{name} {strike.words}", result, actual


def prepare_pools(home: Path) -> Truth:
    """Prepares an undisturbed table and pages, by one process."""
    home.mkdir()
    sweep_arguments = [
        option for option in POOLS["sweep"] if option not in ("--workers", "2")
    ]
    for arguments in (sweep_arguments, ["verify", *STATEMENTS, *PAGES]):
        result = run_command(arguments, home)
        assert result.code == 0, result.stderr
    table = (home / "new" / "table.csv").read_bytes()
    (home / "table.csv").write_bytes(table)
    run_command(
        ["sweep", "new"], home
    )  # a finished sweep: it must not change the table
    assert (home / "new" / "table.csv").read_bytes() == table
    (home / "new").rename(home / "sweep")
    return Truth(home)


def prepare_groups(home: Path) -> Truth:
    """Prepares the undisturbed runs."""
    home.mkdir()
    for name, arguments in GROUPS.items():
        result = run_command([*arguments[:-1], name], home)
        assert result.code == 0, result.stderr
    return Truth(home)


def _struck(
    draw: random.Random,
    arguments: list[str],
    place: Path,
    pace: dict[str, float],
    progress: Callable[[], float] | None,
) -> tuple[Strike, CommandResult]:
    """Runs a command and sends it a signal, unless it ends first.

    The signal comes after random processor time or, in half of the cases with
    `progress`, when a random share of the work is committed.
    """
    fresh, number, name = (
        draw.random() < 0.1,
        draw.choice([*SIGNAL_CODES]),
        str(arguments),
    )
    strike = Strike(
        start_command(arguments, place, None, fresh), number, draw.choice(VICTIMS)
    )
    worker_pids = lambda: [pid for pid in processes_in(place) if pid != strike.command]
    cpu_seconds = lambda: sum(map(seconds_of, [strike.command, *worker_pids()]))
    if progress is not None and draw.random() < 0.5:
        share, goal = progress, draw.random()
    else:
        share, goal = cpu_seconds, draw.uniform(0.0, 1.1) * pace.get(name, FIRST_PACE)
    has_victim = lambda: strike.victim != "another" or bool(worker_pids())
    while not has_ended(strike.command) and not (share() >= goal and has_victim()):
        time.sleep(0.005)
    _send(draw, strike, worker_pids())
    result = wait(strike.command, place)
    if result.code == 0 and not strike.struck:
        pace[name] = 0.8 * pace.get(name, result.seconds) + 0.2 * result.seconds
    return strike, result


def _send(draw: random.Random, strike: Strike, worker_pids: list[int]) -> None:
    """Sends the signal, unless the command has ended."""
    if has_ended(strike.command):
        return
    strike.pids.extend([strike.command, *worker_pids])
    for pid in worker_pids:
        with suppress(OSError):
            if line := _PLACE.search(Path(f"/proc/{pid}/cmdline").read_bytes()):
                strike.places[pid] = int(line[1]), int(line[2])
    victims = {
        "the command": [strike.command],
        "another": draw.sample(worker_pids, min(1, len(worker_pids))),
        "all": draw.sample(strike.pids, len(strike.pids)),
    }[strike.victim]
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, strike.number)
            strike.struck.append(pid)


def _codes_of_pool(name: str, strike: Strike) -> set[int]:
    """Exit codes allowed for a command if it or its worker got a signal."""
    if strike.victim != "another":
        return {0, *SIGNAL_CODES[strike.number]}
    return {0} if name == "sweep" else {0, 4}


def _codes_of_group(strike: Strike) -> set[int]:
    """Exit codes allowed for a group: that of its first process."""
    if strike.victim != "another":
        return {0, *SIGNAL_CODES[strike.number]}
    first = any(strike.places.get(pid, (0, 1))[1] == 0 for pid in strike.struck)
    return {0, 8} | (
        {code for code in SIGNAL_CODES[strike.number] if first and code > 0}
    )


def _name_faults(result: CommandResult, strike: Strike) -> list[str]:
    """Faults if the wrong process is named as lost."""
    if result.code != 8:
        return []
    names = {f"Process {strike.places[p][1]} of 2 (pid {p})" for p in strike.struck}
    return [] if any(name in result.stderr for name in names) else ["misnamed"]


def _remains(place: Path, strike: Strike) -> list[str]:
    """Processes, ports, locks and drafts left after the end."""
    actual, idle = [], 0.0
    while idle < ORPHAN_AFTER and (left := processes_in(place)):
        time.sleep(LOOK)
        idle += 0.0 if any(map(is_at_work, left)) else LOOK
    for pid in processes_in(place):
        actual.append("orphan")
        os.kill(pid, signal.SIGKILL)
    for port in {port for port, _ in strike.places.values()}:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            actual += ["port"] if probe.connect_ex(("127.0.0.1", port)) == 0 else []
    for lock in place.rglob(".lock"):
        try:
            with hold_lock(lock):
                pass
        except OSError:
            actual.append("locked")
    return actual + litter(place)


def _sweep_faults(draw: random.Random, place: Path, truth: Truth) -> list[str]:
    """Faults in what is left of a sweep, and after resuming it to its end."""
    sweep = place / "new"
    if not sweep.exists():
        return []
    before = {file: file.read_bytes() for file in (sweep / "done").glob("*.json")}
    options = draw.choice([[], [], [], ["--workers", "2"]])
    result = run_command(["sweep", "new", *options], place)
    actual = faults_of(result, {0}, PATIENCE)
    actual += ["false"] if "ended early" in result.stderr else []
    is_same = all(file.read_bytes() == content for file, content in before.items())
    finished = (sweep / "done").glob("*.json")
    actual += [] if is_same and len([*finished]) == CHUNKS else ["lost"]
    actual += ["litter" for name in ("todo", "claimed") if [*(sweep / name).iterdir()]]
    table = (sweep / "table.csv").read_bytes()
    return actual + (
        [] if table == (truth.home / "table.csv").read_bytes() else ["false"]
    )


def _page_faults(_: random.Random, place: Path, truth: Truth) -> list[str]:
    """Faults if a page is neither the old nor the complete new one."""
    page = (place / "page.html").read_text().rstrip()
    actual = [] if page.endswith("</html>") and "4.1" in page else ["lost"]
    errata = (place / "errata.md").read_bytes()
    is_same = errata == (truth.home / "errata.md").read_bytes()
    return actual + ([] if is_same else ["lost"])


def _run_faults(draw: random.Random, place: Path, truth: Path, name: str) -> list[str]:
    """Faults in what is left of a run, and after resuming it to its end."""
    run = place / "new"
    if not run.exists():
        return []
    try:
        actual = prefix_faults(run, truth)
    except MeanfieldError:
        return ["lost"]
    # Draws are computed to the same bits by one process.
    by_one_process = name == "draws" and draw.random() < 0.75
    result = run_command(
        ["resume", "new", *(["--devices", "1"] if by_one_process else [])], place
    )
    actual += faults_of(result, {0}, PATIENCE)
    return actual + ([] if arrays(run) == arrays(truth) else ["lost"])
