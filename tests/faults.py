"""Kills, faults and damage of stores, sweeps and pictures, thousands of times.

`python tests/faults.py --count N --seed S` draws N cases and judges each. A result is
one line of JSON, and the last line counts them. Wrong is what is `lost` (a committed
frame, a result or a picture is gone), `false` (exit 0 and other numbers), an
`internal` error with or without a traceback, an `undocumented` exit code, a `hang` of
more than 20 seconds (of PATIENCE seconds, on a machine that is busy), or a draft that
nobody clears away (`litter`).

Commands that are to be killed run in processes: most are forked from this one, which
has imported the package and computed nothing; each tenth is a fresh interpreter. Damage
is judged in this process, by the same entry point.
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faults_damage import DAMAGES, absurd_record, absurd_sweep, tree

from meanfield import runs
from meanfield.cli import main as command
from meanfield.errors import MeanfieldError
from meanfield.storage import RunStore
from meanfield.storage._drafts import clear_drafts

PATIENCE = float(os.environ.get("PATIENCE", "20"))  # seconds after which one hangs
SPEC = ["--n", "12", "--d", "2", "--A=-1", "--t", "2", "--dt", "0.05"]
SPEC += ["--frames", "41", "--segment", "2"]
SWEEP = ["--measure", "gaussian", "--d", "1", "--t", "0.5", "--chunk", "1"]
SWEEP += ["--over", "A=-1:2:4,cov=1:2:3"]
DOCUMENTED = {0, 2, 3, 4, 5, 6, 7}
ENDED = {  # by a signal: as documented, or before the command watches and after it
    signal.SIGKILL: {-9},
    signal.SIGTERM: {143, -15},
    signal.SIGINT: {130, -2},
    signal.SIGHUP: {129, -1},
}


@dataclass(frozen=True)
class Truth:
    """Folders that nobody disturbed, made once."""

    home: Path

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def half(self) -> Path:
        """The same run, interrupted in the middle."""
        return self.home / "half"

    @property
    def sweep(self) -> Path:
        return self.home / "sweep"


@dataclass(frozen=True)
class Finished:
    """A command that has ended: its exit code, negative after a signal, and stderr."""

    code: int | None
    said: str
    seconds: float


# What a command does to a place, and the words it is called by.
COMMANDS: dict[str, list[str]] = {
    "simulate": ["simulate", *SPEC, "--out", "new"],
    "resume": ["resume", "half"],
    "sweep": ["sweep", *SWEEP, "--out", "new-sweep"],
    "plot": ["plot", "run", "--panel", "tokens", "--out", "picture"],
    "export": ["export", "run", "frames.npz"],
    "csv": ["export", "run", "frames.csv"],
    "animate": ["animate", "run", "--out", "film.gif"],
}


def child(arguments: list[str], place: Path, limit: int | None, fresh: bool) -> int:
    """The process of a command that runs in a folder; files end at `limit` bytes."""
    if fresh:
        with (place / "said").open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "meanfield", *arguments],
                cwd=place,
                stdout=subprocess.DEVNULL,
                stderr=said,
                preexec_fn=lambda: _limit(limit),
            ).pid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX, which has not computed anything
        number = os.fork()
    if number == 0:
        _be_a_command(arguments, place, limit)
    return number


def _be_a_command(arguments: list[str], place: Path, limit: int | None) -> None:
    code = 1
    try:
        os.chdir(place)
        for name, stream in (("said", 2), (os.devnull, 1)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        _limit(limit)
        sys.argv = ["meanfield", *arguments]
        from meanfield.__main__ import main

        main()
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException as error:  # noqa: BLE001 - as the interpreter would end
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        try:
            sys.stderr.flush()
        finally:  # never back into what this process is a copy of
            os._exit(code)


def _limit(size: int | None) -> None:
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def wait(number: int, place: Path, deadline: float) -> Finished:
    """A process that has ended, or was killed because it hung: then without a code."""
    begin = time.monotonic()
    while time.monotonic() < deadline:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            code, file = os.waitstatus_to_exitcode(status), place / "said"
            said = file.read_text(errors="replace") if file.exists() else "(nothing)"
            return Finished(code, said, time.monotonic() - begin)
        time.sleep(0.005)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return Finished(None, "", PATIENCE)


def whole(arguments: list[str], place: Path, limit: int | None = None) -> Finished:
    """A command that nobody kills."""
    number = child(arguments, place, limit, fresh=False)
    return wait(number, place, time.monotonic() + 6 * PATIENCE)


def inside(arguments: list[str], place: Path) -> Finished:
    """A command in this process, and the time that the processor took for it."""
    said, begin = io.StringIO(), time.process_time()
    code = 1
    with (
        contextlib.chdir(place),
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        try:
            command(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except Exception:  # noqa: BLE001 - what is looked for
            traceback.print_exc(file=said)
    return Finished(code, said.getvalue(), time.process_time() - begin)


def faults_of(done: Finished, codes: set[int]) -> list[str]:
    """What is wrong with the way a command ended."""
    if done.code is None or done.seconds > PATIENCE:
        return ["hang"]
    if "Traceback" in done.said or "internal error" in done.said or done.code == 1:
        return ["internal"]
    return [] if done.code in codes else ["undocumented"]


def arrays(run: Path) -> dict[str, bytes] | None:
    """The bytes of all that a run holds, or `None` if it says that it is damaged."""
    try:
        data = runs.dataset(run)
    except MeanfieldError:
        return None
    return {str(n): v.values.tobytes() for n, v in data.variables.items() if v.dims}


def prefix_faults(run: Path, truth: Path) -> list[str]:
    """Whether what a run has committed is what the whole run begins with."""
    if not run.exists():
        return []
    store = RunStore.open(run)
    if not store.frames:
        return []
    store.check()
    data, expected = store.dataset(), RunStore.open(truth).dataset()
    expected = expected.isel(time=slice(store.frames))
    same = all(
        data[name].values.tobytes() == variable.values.tobytes()
        for name, variable in expected.variables.items()
        if variable.dims
    )
    return [] if same else ["false"]


def picture_faults(place: Path) -> list[str]:
    """Whether a picture or a table that was good is torn."""
    ends = {"picture.pdf": b"%%EOF\n", "picture.png": b"IEND\xaeB`\x82"}
    ends |= {"film.gif": b";", "frames.npz": b"", "frames.csv": b"\n"}
    for name, end in ends.items():
        content = (place / name).read_bytes() if (place / name).exists() else b""
        if not content or not content.endswith(end):
            return ["lost"]
    try:
        with np.load(place / "frames.npz") as file:
            _ = [file[name] for name in file.files]
    except (OSError, ValueError, EOFError):
        return ["lost"]
    return []


def litter(place: Path) -> list[str]:
    """What the next writer would not clear away."""
    for folder in (place, place / "new-sweep" / "done"):
        if folder.is_dir():
            clear_drafts(folder)
    left = [
        path for path in place.rglob(".*.meanfield-draft-*") if path.parts[-2] != "half"
    ]
    return ["litter"] if left else []


def aftermath(name: str, place: Path, truth: Truth) -> list[str]:
    """What is wrong with what a killed command has left, and with going on."""
    try:
        found = prefix_faults(place / "new", truth.run)
        found += prefix_faults(place / "half", truth.run)
    except MeanfieldError:
        return ["lost"]
    found += picture_faults(place) + litter(place)
    if name == "sweep" and (place / "new-sweep").exists():
        done = whole(["sweep", "new-sweep"], place)
        found += faults_of(done, {0})
        table = (place / "new-sweep" / "table.csv").read_bytes()
        found += [] if table == (truth.sweep / "table.csv").read_bytes() else ["false"]
    run = {"simulate": "new", "resume": "half"}.get(name)
    if run and (place / run).exists():
        found += faults_of(whole(["resume", run], place), {0})
        found += [] if arrays(place / run) == arrays(truth.run) else ["lost"]
    return found


def kill(draw: random.Random, place: Path, truth: Truth, pace: dict[str, float]):
    """A signal at a random moment of a random command."""
    name = draw.choice(list(COMMANDS))
    number = draw.choice(list(ENDED))
    fresh = draw.random() < 0.1
    begin = time.monotonic()
    process = child(COMMANDS[name], place, None, fresh)
    time.sleep(draw.uniform(0.0, 1.1) * pace.get(name, 2.0) + (0.1 if fresh else 0.0))
    os.kill(process, number)
    done = wait(process, place, time.monotonic() + PATIENCE)
    if done.code == 0:  # it was over before the signal
        pace[name] = 0.8 * pace.get(name, 2.0) + 0.2 * (time.monotonic() - begin)
    found = faults_of(done, {0, *ENDED[number]})
    return f"{name} {number.name}", done, found + aftermath(name, place, truth)


def full_disk(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """Files that end at a random length."""
    name = draw.choice(list(COMMANDS))
    done = whole(COMMANDS[name], place, limit=int(2 ** draw.uniform(4, 16)))
    return name, done, faults_of(done, {0, 4}) + aftermath(name, place, truth)


def removal(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """A store, or a part of it, that goes while it is written."""
    name, part = draw.choice(["simulate", "resume"]), draw.choice(list(PARTS))
    run = place / {"simulate": "new", "resume": "half"}[name]
    first = _frames(run)
    process = child(COMMANDS[name], place, None, fresh=False)
    deadline, wanted = time.monotonic() + PATIENCE, first + draw.randint(2, 16)
    while time.monotonic() < deadline and _frames(run) < wanted:
        time.sleep(0.002)
    os.kill(process, signal.SIGSTOP)
    over = _is_over(run)
    if not over:
        PARTS[part](run)
    os.kill(process, signal.SIGCONT)
    done = wait(process, place, time.monotonic() + PATIENCE)
    found = faults_of(done, {0, 3, 4, 7})
    if done.code == 0 and not over and arrays(run) != arrays(truth.run):
        found.append("lost in silence")
    return f"{name} {part}", done, found


def _frames(run: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((run / "commit.json").read_bytes())["frames"]
    return 0


def _is_over(run: Path) -> bool:
    """Whether the last commit of a run has come before what was to disturb it."""
    with contextlib.suppress(OSError, ValueError):
        ending = json.loads((run / "commit.json").read_bytes())["ending"]
        return ending is not None and ending["name"] != "interrupted"
    return False


PARTS: dict[str, Callable[[Path], object]] = {
    "store": lambda run: shutil.rmtree(run, ignore_errors=True),
    "moved": lambda run: run.rename(run.with_name("elsewhere")),
    "data": lambda run: shutil.rmtree(run / "data", ignore_errors=True),
    "segments": lambda run: shutil.rmtree(run / "data/segments", ignore_errors=True),
    "static": lambda run: shutil.rmtree(run / "data/static", ignore_errors=True),
    "first": lambda run: shutil.rmtree(run / "data/segments/00000", ignore_errors=True),
    "array": lambda run: shutil.rmtree(
        run / "data/segments/00000/x", ignore_errors=True
    ),
    "record": lambda run: (run / "commit.json").unlink(missing_ok=True),
    "lock": lambda run: (run / ".lock").unlink(missing_ok=True),
}


def damage(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """A bit, a length or a file of a store or a sweep, and a command that reads it."""
    what, (name, harm) = draw.choice(READERS), draw.choice(list(DAMAGES.items()))
    target, arguments = what
    with contextlib.suppress(IndexError):
        harm(draw, place / target, place / "outside")
    outside = tree(place / "outside")
    done = inside(arguments, place)
    found = faults_of(done, DOCUMENTED)
    found += [] if tree(place / "outside") == outside else ["lost"]
    return (
        f"{arguments[0]} {name}",
        done,
        found + _read_faults(done, place, truth, arguments),
    )


def absurd(draw: random.Random, place: Path, truth: Truth, _: dict[str, float]):
    """A record with a right checksum and one wrong value, and a command that reads."""
    target, arguments = draw.choice(READERS)
    harm = absurd_sweep if target == "sweep" else absurd_record
    where = harm(draw, place / target)
    done = inside(arguments, place)
    found = faults_of(done, DOCUMENTED)
    if where.startswith(READ):  # what else a forged record says is another run
        found += _read_faults(done, place, truth, arguments)
    return f"{arguments[0]} {where}", done, found


_DRAWN = ["--out", "drawn"]
READERS = [  # what is cheap comes more often
    *[("run", ["export", "run", "read.npz"])] * 4,
    *[("half", ["export", "half", "read.npz"])] * 4,
    *[("sweep", ["sweep", "sweep"])] * 6,
    *[("run", ["show", "run"])] * 2,
    *[("run", ["resume", "run"])] * 2,
    *[("half", ["resume", "half"])] * 3,
    ("run", ["simulate", "--from", "run", "--t", "0.1", "--frames", "3"]),
    ("run", ["plot", "run", *_DRAWN]),
    ("sweep", ["plot", "sweep", *_DRAWN]),
]
READ = ("segments", "variables", "static", "sizes", "dims", "frames", "schema", "chunk")


def _read_faults(
    done: Finished, place: Path, truth: Truth, arguments: list[str]
) -> list[str]:
    """Whether a command that says it went well read, or wrote, other numbers."""
    if done.code != 0:
        return []
    if arguments[0] == "sweep":
        table = (place / "sweep" / "table.csv").read_bytes()
        return [] if table == (truth.sweep / "table.csv").read_bytes() else ["false"]
    if arguments[0] == "export":
        source = runs.dataset(truth.run if arguments[1] == "run" else truth.half)
        with np.load(place / "read.npz") as file:
            same = all(
                file[str(n)].tobytes() == v.values.tobytes()
                for n, v in source.variables.items()
                if v.dims
            )
        return [] if same else ["false"]
    if arguments == ["resume", "half"]:
        return [] if arrays(place / "half") == arrays(truth.run) else ["false"]
    return []


KINDS: dict[str, tuple[Callable, float]] = {  # with shares of all cases
    "kill": (kill, 0.12),
    "full disk": (full_disk, 0.04),
    "removal": (removal, 0.04),
    "damage": (damage, 0.45),
    "absurd": (absurd, 0.35),
}


@contextlib.contextmanager
def place_for(truth: Truth) -> Iterator[Path]:
    """A folder of copies to be harmed."""
    with tempfile.TemporaryDirectory(dir=truth.home.parent) as name:
        place = Path(name)
        for source in truth.home.iterdir():
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, place / source.name)
        (place / "outside").mkdir()
        (place / "outside" / "precious").write_text("not ours")
        yield place


def prepare(home: Path) -> Truth:
    """The folders that nobody disturbs."""
    home.mkdir()
    made = Truth(home)
    for arguments in (
        ["simulate", *SPEC, "--out", "run"],
        ["sweep", *SWEEP, "--out", "sweep"],
        *(COMMANDS[name] for name in ("plot", "export", "csv", "animate")),
    ):
        done = whole(arguments, home)
        assert done.code == 0, done.said
    _halve(made)
    (home / "said").unlink()
    return made


def _halve(truth: Truth) -> None:
    """The run as an interrupt in its middle would have left it."""
    from meanfield.storage._record import read_record, write_record

    shutil.copytree(truth.run, truth.half)
    record = read_record(truth.half)
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    members = [{**m, "status": None} for m in record.state["members"]]
    fields |= {"segments": record.segments[:10], "ending": None}
    write_record(truth.half, type(record)(**{**fields, "state": {"members": members}}))


def measured(count: int, seed: int, kinds: list[str], home: Path) -> Iterator[dict]:
    """The judgements of so many cases, those in processes first."""
    truth = prepare(home / "truth")
    pace: dict[str, float] = {}
    total = sum(KINDS[kind][1] for kind in kinds)
    for kind in kinds:
        harm, share = KINDS[kind]
        for index in range(round(count * share / total)):
            draw = random.Random(f"{seed} {kind} {index}")
            with place_for(truth) as place:
                case, done, found = harm(draw, place, truth, pace)
            last = done.said.strip().splitlines()[-1:] or [""]
            yield {
                "kind": kind,
                "index": index,
                "case": case,
                "code": done.code,
                "seconds": round(done.seconds, 2),
                "faults": found,
                "said": last[0] if not found else done.said[-3000:],
            }


def warm() -> None:
    """Imports what commands import, so that forked ones need not."""
    import diffrax  # noqa: F401
    import zarr  # noqa: F401

    import meanfield.cli._simulate
    import meanfield.cli._sweep
    import meanfield.plotting  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills, faults and damage.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    chosen = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        warm()
        kinds = chosen.kind or list(KINDS)
        for case in measured(chosen.count, chosen.seed, kinds, Path(folder)):
            sys.stdout.write(json.dumps(case) + "\n")
            sys.stdout.flush()
            counts.update([case["kind"], *(f"WRONG {f}" for f in case["faults"])])
    sys.stdout.write(json.dumps({"seed": chosen.seed, "counts": counts}) + "\n")
    sys.exit(any(name.startswith("WRONG") for name in counts))


if __name__ == "__main__":
    main()
