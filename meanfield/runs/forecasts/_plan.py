"""What a run will take of memory and disk, said before it starts."""

import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.errors import ResourceError
from meanfield.measures import (
    LARGEST,
    AbstractPlanned,
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    Dense,
    typical,
)
from meanfield.runs.representations import Size, named
from meanfield.runs.setup._memory import (
    FACES,
    HIDDEN,
    SCORE_BUFFERS,
    Footprint,
    readable,
)
from meanfield.runs.setup._parameters import dtype_of
from meanfield.spec import RunSpec

NODE_BUFFERS = 2  # of what cells hold on their nodes
QUERIES = 2048  # of a grid at once


@dataclass(frozen=True)
class Plan:
    """What a run will take. Sizes are in bytes.

    Attributes:
        n: the number of tokens; 0 without any.
        cells: the number of cells of a grid; 0 without one.
        reduction: how sums over tokens or cells are executed; `none` for a
            Gaussian, and where tokens are sorted.
        segments: pieces integrated, and committed, one after the other.
        members: flows: one, or one for each draw or start.

    Examples:
        >>> from meanfield import runs, spec
        >>> plan = runs.foreseen(spec.parse({"n": 1000, "d": 2, "frames": 11})).plan
        >>> plan.measure, plan.n, plan.frames, plan.members
        ('points', 1000, 11, 1)
    """

    measure: str
    attention: str
    n: int
    cells: int
    d: int
    dtype: str
    reduction: str
    frames: int
    segments: int
    members: int
    memory: int
    disk: int

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return asdict(self)


def plan(
    spec: RunSpec, size: Size, frames: int, members: int, *, keys: int = 0
) -> Plan:
    """The plan of a run that moves `members` of a size through so many frames.

    They look at so many `keys` besides each other.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.foreseen(spec.parse({"measure": "gaussian", "d": 3})).plan.d
        3
    """
    dtype, (n, cells, d, how) = dtype_of(spec.precision), size
    footprint, item = Footprint.of(spec, d, frames), dtype.itemsize
    sums, state = SCORE_BUFFERS * d * d * item, 2 * d * d * item
    if how is not None:
        state = (n * d or cells) * item
        sums = _memory(how, n or d * cells, max(n or cells, keys), d, item)
        sums += HIDDEN * (n or d * cells) * footprint.width * item
        sums += FACES * cells * item
    return Plan(
        measure=spec.measure,
        attention=spec.mover,
        n=n,
        cells=cells,
        d=d,
        dtype=dtype.name,
        reduction=named(how),
        frames=frames,
        segments=-(-(frames - 1) // spec.segment),
        members=members,
        memory=state * footprint.held * members + sums,
        disk=state * frames * members,
    )


def _memory(how: AbstractReduction, m: int, n: int, d: int, item: int) -> int:
    """What sums over `n` tokens or cells in dimension `d` take for `m` queries."""
    if isinstance(how, Chebyshev) and how.is_planned:
        return SCORE_BUFFERS * LARGEST * item
    if isinstance(how, Cells) and (layout := typical(n, d, error=how.tolerance)):
        return NODE_BUFFERS * layout.numbers(d + 1) * item
    if isinstance(how, AbstractPlanned):
        return _memory(how.otherwise, m, n, d, item)
    if isinstance(how, Blocked):
        shape = how.shape(np.dtype(f"float{8 * item}"))
        return SCORE_BUFFERS * min(shape.queries, m) * min(shape.keys, n) * item
    if isinstance(how, Dense):
        return SCORE_BUFFERS * m * n * item
    return SCORE_BUFFERS * min(m, QUERIES) * math.isqrt(n) * item


def refuse_full_disk(plan: Plan, out: Path) -> None:
    """Refuses a run that its disk cannot hold.

    Raises:
        ResourceError: naming what is needed and what there is.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> ahead = runs.foreseen(spec.parse({"n": 10, "t": 0.1}))
        >>> runs.refuse_full_disk(ahead.plan, Path("run.zarr"))  # there is room
    """
    folder = next(p for p in (out, *out.absolute().parents) if p.exists())
    disk = shutil.disk_usage(folder)
    if disk.total and plan.disk > disk.free:  # folders such as /proc have no size
        raise ResourceError(
            f"The frames need {readable(plan.disk)} and `{folder}` has "
            f"{readable(disk.free)} left; ask for fewer `frames`, or use another disk."
        )
