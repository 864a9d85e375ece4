"""The memory and disk space that a run will need, computed before it starts."""

import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.errors import ResourceError
from meanfield.measures import (
    MAX_BLOCK_NUMBERS,
    AbstractPlannedReduction,
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    Dense,
    typical_layout,
)
from meanfield.runs.representations import Size, reduction_name
from meanfield.runs.setup._memory import (
    FACES,
    PERCEPTRON_ARRAYS,
    SCORE_BUFFERS,
    Footprint,
    format_bytes,
)
from meanfield.runs.setup._parameters import dtype_of
from meanfield.spec import RunSpec

NODE_BUFFERS = 2  # number of copies of the values at the nodes of cells
QUERIES = 2048  # largest number of queries in one block of sums over a grid


@dataclass(frozen=True)
class Plan:
    """The size of a run and the resources that it will need.

    Attributes:
        n: the number of tokens; 0 without tokens.
        cells: the number of cells of a grid; 0 without a grid.
        d: the dimension.
        reduction: how sums over tokens or cells are executed; `none` for a Gaussian
            and for tokens that are only sorted.
        frames: the number of frames.
        segments: the number of segments, integrated and committed one by one.
        members: the number of flows: one, or one for each draw or start.
        memory: memory in bytes.
        disk: disk space in bytes.

    Examples:
        >>> from meanfield import runs, spec
        >>> plan = runs.forecast(spec.parse({"n": 1000, "d": 2, "frames": 11})).plan
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
    """The plan of a run with `members` members, each of the given size.

    Args:
        spec: the spec of the run.
        size: the size of one member.
        frames: the number of frames.
        members: the number of members.
        keys: the number of tokens or cells in the largest context.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.forecast(spec.parse({"measure": "gaussian", "d": 3})).plan.d
        3
    """
    dtype, (n, cells, d, reduction) = dtype_of(spec.precision), size
    footprint, item = Footprint.from_spec(spec, d, frames), dtype.itemsize
    sums, state = SCORE_BUFFERS * d * d * item, 2 * d * d * item
    if reduction is not None:
        state = (n * d or cells) * item
        sums = _memory(reduction, n or d * cells, max(n or cells, keys), d, item)
        sums += PERCEPTRON_ARRAYS * (n or d * cells) * footprint.width * item
        sums += FACES * cells * item
    return Plan(
        measure=spec.measure,
        attention=spec.mover,
        n=n,
        cells=cells,
        d=d,
        dtype=dtype.name,
        reduction=reduction_name(reduction),
        frames=frames,
        segments=-(-(frames - 1) // spec.segment),
        members=members,
        memory=state * footprint.n_copies * members + sums,
        disk=state * frames * members,
    )


def _memory(reduction: AbstractReduction, m: int, n: int, d: int, item: int) -> int:
    """Bytes for sums over `n` tokens or cells in dimension `d`, at `m` queries."""
    if isinstance(reduction, Chebyshev) and reduction.is_planned:
        return SCORE_BUFFERS * MAX_BLOCK_NUMBERS * item
    if isinstance(reduction, Cells) and (
        layout := typical_layout(n, d, error=reduction.tolerance)
    ):
        return NODE_BUFFERS * layout.numbers(d + 1) * item
    if isinstance(reduction, AbstractPlannedReduction):
        return _memory(reduction.fallback, m, n, d, item)
    if isinstance(reduction, Blocked):
        shape = reduction.shape(np.dtype(f"float{8 * item}"))
        return SCORE_BUFFERS * min(shape.queries, m) * min(shape.keys, n) * item
    if isinstance(reduction, Dense):
        return SCORE_BUFFERS * m * n * item
    return SCORE_BUFFERS * min(m, QUERIES) * math.isqrt(n) * item


def check_disk_space(plan: Plan, path: Path) -> None:
    """Checks that the disk can hold the frames of a run.

    Raises:
        ResourceError: if it cannot; the message says how much space is needed and free.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> ahead = runs.forecast(spec.parse({"n": 10, "t": 0.1}))
        >>> runs.check_disk_space(ahead.plan, Path("run.zarr"))  # there is room
    """
    folder = next(p for p in (path, *path.absolute().parents) if p.exists())
    disk = shutil.disk_usage(folder)
    if disk.total and plan.disk > disk.free:  # folders such as /proc report size 0
        raise ResourceError(
            f"The frames need {format_bytes(plan.disk)}, but the disk `{folder}` has "
            f"{format_bytes(disk.free)} left; lower `frames`, or use another disk."
        )
