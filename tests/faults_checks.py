"""Checks of how a command ended, and of what it left or read."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faults_commands import PATIENCE, CommandResult, run_command

from meanfield import runs
from meanfield.errors import MeanfieldError
from meanfield.storage import RunStore
from meanfield.storage.disk._drafts import clear_drafts


@dataclass(frozen=True)
class Truth:
    """Undisturbed folders, made once."""

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


def faults_of(
    result: CommandResult, codes: set[int], patience: float = PATIENCE
) -> list[str]:
    """Faults in the way a command ended."""
    if result.code is None or result.seconds > patience:
        return ["hang"]
    if (
        "Traceback" in result.stderr
        or "internal error" in result.stderr
        or result.code == 1
    ):
        return ["internal"]
    return [] if result.code in codes else ["undocumented"]


def arrays(run: Path) -> dict[str, bytes] | None:
    """All stored bytes of a run, or `None` if it reports damage."""
    try:
        data = runs.dataset(run).load()
    except MeanfieldError:
        return None
    return {str(n): v.values.tobytes() for n, v in data.variables.items() if v.dims}


def prefix_faults(run: Path, truth: Path) -> list[str]:
    """Faults if the committed frames are not a prefix of the full run."""
    if not run.exists():
        return []
    store = RunStore.open(run)
    if not store.frames:
        return []
    store.check()
    data, expected = store.dataset(), RunStore.open(truth).dataset()
    expected = expected.isel(time=slice(store.frames))
    is_same = all(
        data[name].values.tobytes() == variable.values.tobytes()
        for name, variable in expected.variables.items()
        if {"time", "token"}
        & {*variable.dims}  # the other scalars depend on the ending
    )
    return [] if is_same else ["false"]


def picture_faults(place: Path) -> list[str]:
    """Faults if an existing picture or table was torn."""
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
    """Drafts that the next writer would not remove."""
    for folder in (place, place / "new-sweep" / "done"):
        if folder.is_dir():
            clear_drafts(folder)
    left = [
        path for path in place.rglob(".*.meanfield-draft-*") if path.parts[-2] != "half"
    ]
    return ["litter"] if left else []


def aftermath(name: str, place: Path, truth: Truth) -> list[str]:
    """Faults in what a killed command left, and in resuming from it."""
    try:
        actual = prefix_faults(place / "new", truth.run)
        actual += prefix_faults(place / "half", truth.run)
    except MeanfieldError:
        return ["lost"]
    actual += picture_faults(place) + litter(place)
    if name == "sweep" and (place / "new-sweep").exists():
        result = run_command(["sweep", "new-sweep"], place)
        actual += faults_of(result, {0})
        table = (place / "new-sweep" / "table.csv").read_bytes()
        actual += [] if table == (truth.sweep / "table.csv").read_bytes() else ["false"]
    run = {"simulate": "new", "resume": "half"}.get(name)
    if run and (place / run).exists():
        actual += faults_of(run_command(["resume", run], place), {0})
        actual += [] if arrays(place / run) == arrays(truth.run) else ["lost"]
    return actual


def read_faults(
    result: CommandResult, place: Path, truth: Truth, arguments: list[str]
) -> list[str]:
    """Faults if a command that reports success read or wrote wrong numbers."""
    if result.code != 0:
        return []
    if arguments[0] == "sweep":
        table = (place / "sweep" / "table.csv").read_bytes()
        return [] if table == (truth.sweep / "table.csv").read_bytes() else ["false"]
    if arguments[0] == "export":
        source = runs.dataset(truth.run if arguments[1] == "run" else truth.half)
        with np.load(place / "read.npz") as file:
            is_same = all(
                file[str(n)].tobytes() == v.values.tobytes()
                for n, v in source.variables.items()
                if v.dims
            )
        return [] if is_same else ["false"]
    if arguments == ["resume", "half"]:
        return [] if arrays(place / "half") == arrays(truth.run) else ["false"]
    return []
