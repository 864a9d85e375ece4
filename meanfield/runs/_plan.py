"""What a run will take, said before it starts; the impossible is refused."""

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meanfield.errors import ResourceError
from meanfield.measures import AbstractMeasure, Blocked, Points
from meanfield.spec import RunSpec

from ._build import dtype_of

SHARE = 0.8  # of the machine's memory that a run may plan to use
SCORE_BUFFERS = 4  # scores, exponentials, and what a step keeps of them
STAGES = 16  # copies of the coordinates that a Runge–Kutta step holds at most


@dataclass(frozen=True)
class Plan:
    """What a run will take. Sizes are in bytes.

    Attributes:
        reduction: how sums over tokens are executed; `none` for a Gaussian.
        segments: pieces integrated, and committed, one after the other.
    """

    measure: str
    n: int
    d: int
    dtype: str
    reduction: str
    frames: int
    segments: int
    draws: int
    memory: int
    disk: int

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return asdict(self)


def plan(spec: RunSpec, measure: AbstractMeasure, frames: int) -> Plan:
    """The plan of a run that moves `measure` through so many frames."""
    item = dtype_of(spec).itemsize
    draws = spec.draws or 1
    if isinstance(measure, Points):
        n, d = measure.tokens.x.shape
        state = n * d * item
        blocked = isinstance(measure.reduction, Blocked)
        side = measure.reduction.size if isinstance(measure.reduction, Blocked) else n
        scores = SCORE_BUFFERS * side * side * item
        reduction = f"blocked:{side}" if blocked else "dense"
    else:
        d = dimension_of(measure)
        n, state, scores, reduction = 0, 2 * d * d * item, SCORE_BUFFERS * d * d * item, ""
    held = min(frames, spec.segment + 1) + STAGES
    return Plan(
        measure=spec.measure,
        n=n,
        d=d,
        dtype=dtype_of(spec).name,
        reduction=reduction or "none",
        frames=frames,
        segments=-(-(frames - 1) // spec.segment),
        draws=draws,
        memory=state * held * draws + scores,
        disk=state * frames * draws,
    )


def dimension_of(measure: AbstractMeasure) -> int:
    """The dimension of the space that a measure lives in."""
    if isinstance(measure, Points):
        return measure.tokens.x.shape[1]
    return measure.coordinates[0].shape[0]


def refuse_too_many(spec: RunSpec, n: int, d: int) -> None:
    """Refuses tokens that cannot fit, before any of them is made.

    Raises:
        ResourceError: naming what is needed, what there is, and what would fit.
    """
    item = 8 if spec.precision == "double" else 4
    held = min(spec.frames, spec.segment + 1) + STAGES
    row = d * item * held * (spec.draws or 1)
    room = int(SHARE * physical_memory())
    if n * row > room:
        raise ResourceError(
            f"{n} tokens in dimension {d} need about {readable(n * row)} of memory and "
            f"this machine has {readable(physical_memory())}; at most "
            f"{room // row} tokens fit."
        )
    if spec.reduction == "dense" and SCORE_BUFFERS * n * n * item > room:
        raise ResourceError(
            f"Dense sums over {n} tokens need {readable(SCORE_BUFFERS * n * n * item)} "
            f"of memory and this machine has {readable(physical_memory())}; use "
            "`reduction = blocked`."
        )


def refuse_full_disk(plan: Plan, out: Path) -> None:
    """Refuses a run that its disk cannot hold.

    Raises:
        ResourceError: naming what is needed and what there is.
    """
    folder = next(p for p in (out, *out.resolve().parents) if p.exists())
    free = shutil.disk_usage(folder).free
    if plan.disk > free:
        raise ResourceError(
            f"The frames need {readable(plan.disk)} and `{out}` has {readable(free)} "
            "left; ask for fewer `frames`."
        )


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def readable(size: float) -> str:
    """A size in bytes for people: `1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
