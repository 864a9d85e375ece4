"""Kills, faults and damage of stores, sweeps and pictures, by the thousand.

`python tests/faults.py --count N --seed S` runs N random cases. Each result is one line
of JSON, and the last line counts them. Faults are `lost` (a committed frame, a result
or a picture is gone), `false` (exit 0 with wrong numbers), an `internal` error with or
without a traceback, an `undocumented` exit code, a `hang` of more than 20 seconds of
processor time, and `litter` (a draft that is never removed); of commands with several
processes also an `orphan`, a `port` or lock that is still held, and `misnamed` (the
wrong process is named as lost).

Commands that are killed run in processes: most are forked from this one, which has
imported the package and computed nothing; one in ten is a fresh interpreter. Damage is
tested in this process, by the same entry point.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from faults_checks import Truth, faults_of, read_faults
from faults_commands import (
    COMMANDS,
    DOCUMENTED_CODES,
    SPEC,
    SWEEP,
    run_command,
    run_in_process,
)
from faults_damage import DAMAGES, absurd_record, absurd_sweep, tree
from faults_kills import full_disk, kill, removal
from faults_processes import kill_group, kill_pool, prepare_groups, prepare_pools


def damage(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """Damages a file of a store or a sweep, and runs a command that reads it."""
    reader, (name, harm) = draw.choice(READERS), draw.choice(list(DAMAGES.items()))
    target, arguments = reader
    with contextlib.suppress(IndexError):
        harm(draw, place / target, place / "outside")
    outside = tree(place / "outside")
    result = run_in_process(arguments, place)
    actual = faults_of(result, DOCUMENTED_CODES)
    actual += [] if tree(place / "outside") == outside else ["lost"]
    return (
        f"{arguments[0]} {name}",
        result,
        actual + read_faults(result, place, truth, arguments),
    )


def absurd(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """Forges one value under a valid checksum, and runs a command that reads it."""
    target, arguments = draw.choice(READERS)
    harm = absurd_sweep if target == "sweep" else absurd_record
    where = harm(draw, place / target)
    result = run_in_process(arguments, place)
    actual = faults_of(result, DOCUMENTED_CODES)
    if where.startswith(READ):  # other forged values describe a different run
        actual += read_faults(result, place, truth, arguments)
    return f"{arguments[0]} {where}", result, actual


_OUTPUT = ["--out", "drawn"]
READERS = [  # cheap commands are more frequent
    *[("run", ["export", "run", "read.npz"])] * 4,
    *[("half", ["export", "half", "read.npz"])] * 4,
    *[("sweep", ["sweep", "sweep"])] * 6,
    *[("run", ["show", "run"])] * 2,
    *[("run", ["resume", "run"])] * 2,
    *[("half", ["resume", "half"])] * 3,
    ("run", ["simulate", "--from", "run", "--t", "0.1", "--frames", "3"]),
    ("run", ["plot", "run", *_OUTPUT]),
    ("sweep", ["plot", "sweep", *_OUTPUT]),
]
READ = ("segments", "variables", "static", "sizes", "dims", "frames", "schema", "chunk")


@contextlib.contextmanager
def place_for(truth: Truth) -> Iterator[Path]:
    """A folder of copies to be damaged."""
    with tempfile.TemporaryDirectory(dir=truth.home.parent) as name:
        place = Path(name)
        for source in truth.home.iterdir():
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, place / source.name)
        (place / "outside").mkdir()
        (place / "outside" / "precious").write_text("not ours")
        yield place


def prepare(home: Path) -> Truth:
    """Prepares the undisturbed folders."""
    home.mkdir()
    truth = Truth(home)
    for arguments in (
        ["simulate", *SPEC, "--out", "run"],
        ["sweep", *SWEEP, "--out", "sweep"],
        *(COMMANDS[name] for name in ("plot", "export", "csv", "animate")),
    ):
        result = run_command(arguments, home)
        assert result.code == 0, result.stderr
    _halve(truth)
    (home / "said").unlink()
    return truth


def _halve(truth: Truth) -> None:
    """Copies the run as if it had been interrupted in the middle."""
    from meanfield.storage._record import read_record, write_record

    shutil.copytree(truth.run, truth.half)
    record = read_record(truth.half)
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    members = [{**m, "status": None} for m in record.state["members"]]
    fields |= {"segments": record.segments[:10], "ending": None}
    write_record(truth.half, type(record)(**{**fields, "state": {"members": members}}))


KINDS: dict[str, tuple[Callable, float, Callable[[Path], Truth]]] = {
    # the kinds, their shares of all cases, and how their folders are prepared
    "pool": (kill_pool, 0.005, prepare_pools),
    "group": (kill_group, 0.005, prepare_groups),
    "kill": (kill, 0.12, prepare),
    "full disk": (full_disk, 0.04, prepare),
    "removal": (removal, 0.04, prepare),
    "damage": (damage, 0.44, prepare),
    "absurd": (absurd, 0.35, prepare),
}


def prepared_folders(make: Callable[[Path], Truth], home: Path) -> Truth:
    """The undisturbed folders, prepared once."""
    place = home / make.__name__
    if not place.exists():
        draft = home / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        make(draft)
        draft.rename(place)
    return Truth(place)


def run_cases(count: int, seed: int, kinds: list[str], home: Path) -> Iterator[dict]:
    """The results of `count` cases, those in processes first."""
    pace: dict[str, float] = {}
    total = sum(KINDS[kind][1] for kind in kinds)
    for kind in kinds:
        harm, share, make = KINDS[kind]
        for index in range(round(count * share / total)):
            truth, draw = (
                prepared_folders(make, home),
                random.Random(f"{seed} {kind} {index}"),
            )
            with place_for(truth) as place:
                case, result, actual = harm(draw, place, truth, pace)
            last = result.stderr.strip().splitlines()[-1:] or [""]
            yield {
                "kind": kind,
                "index": index,
                "case": case,
                "code": result.code,
                "seconds": round(result.seconds, 2),
                "faults": actual,
                "said": last[0] if not actual else result.stderr[-3000:],
            }


def warm() -> None:
    """Imports what commands import, so that forked processes need not."""
    import diffrax  # noqa: F401
    import zarr  # noqa: F401

    import meanfield.cli.commands.simulate
    import meanfield.cli.commands.sweep
    import meanfield.cli.jobs._measuring
    import meanfield.cli.jobs._report
    import meanfield.plotting  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills, faults and damage.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--home", type=Path, help="a folder to keep for another call")
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    # In the background, or under `nohup`, these signals would be ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        home = (options.home or Path(folder)).resolve()
        os.environ["XDG_CACHE_HOME"] = str(home / "cache")
        warm()
        kinds = options.kind or list(KINDS)
        for case in run_cases(options.count, options.seed, kinds, home):
            sys.stdout.write(json.dumps(case) + "\n")
            sys.stdout.flush()
            counts.update([case["kind"], *(f"WRONG {f}" for f in case["faults"])])
    sys.stdout.write(json.dumps({"seed": options.seed, "counts": counts}) + "\n")
    sys.exit(any(name.startswith("WRONG") for name in counts))


if __name__ == "__main__":
    main()
