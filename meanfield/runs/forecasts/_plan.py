"""What a run will take, said before it starts; the impossible is refused."""

import math
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
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
    Grid,
    typical,
)
from meanfield.runs.building._precision import dtype_of
from meanfield.spec import RunSpec

from ._sums import named

SHARE = 0.8  # of the machine's memory that a run may plan to use
NODE_BUFFERS = 2  # of what cells hold on their nodes
SCORE_BUFFERS = 4  # scores, exponentials, and what a step keeps of them
MATRICES = 6  # of size d × d that an attention keeps or makes on its way
QUERIES = 2048  # of a grid at once
FACES = 12  # velocities, face values and fluxes of a grid, in copies of its masses
HIDDEN = 2  # arrays of what a perceptron makes on its way, a row for each token
PASSING = 10  # copies of its frames that a context which moves takes on its way
SPLINES = 4  # of them that it keeps, as coefficients
STAGES = 16  # copies of the coordinates that a Runge–Kutta step holds at most


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


class Size(NamedTuple):
    """How much of a measure there is.

    Attributes:
        n: tokens; 0 without any.
        cells: of a grid, those of all layers; 0 without one.
        d: the dimension of the space.
        how: how sums over the tokens or cells are executed; `None` without sums.
    """

    n: int
    cells: int
    d: int
    how: AbstractReduction | None


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
    item, (n, cells, d, how) = dtype_of(spec).itemsize, size
    sums, state = SCORE_BUFFERS * d * d * item, 2 * d * d * item
    if how is not None:
        state = (n * d or cells) * item
        sums = _memory(how, n or d * cells, max(n or cells, keys), d, item)
        sums += HIDDEN * (n or d * cells) * _width(spec, d) * item
        sums += FACES * cells * item
    return Plan(
        measure=spec.measure,
        attention=spec.mover,
        n=n,
        cells=cells,
        d=d,
        dtype=dtype_of(spec).name,
        reduction=named(how),
        frames=frames,
        segments=-(-(frames - 1) // spec.segment),
        members=members,
        memory=state * _held(spec, frames) * members + sums,
        disk=state * frames * members,
    )


def sums_over_cells(mu: Grid) -> AbstractReduction:
    """How sums over cells are executed, by their shapes: they become no tokens yet."""
    return eqx.filter_eval_shape(Grid.points, mu).reduction


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


def refuse_too_large(spec: RunSpec, n: int, d: int, *, keys: int = 0) -> None:
    """Refuses what cannot fit, before any of it is made: `n` tokens, or none.

    Args:
        spec: of the run.
        n: tokens that are to be made.
        d: their dimension.
        keys: that they look at besides each other.

    Raises:
        ResourceError: naming what is needed, what there is, and what would fit.
    """
    item = 8 if spec.precision == "double" else 4
    room = int(SHARE * physical_memory())
    parts = max(len(spec.layers), 1) * spec.heads + len(spec.terms)
    fixed = MATRICES * parts * (spec.draws or 1) * d * d * item
    if fixed > room:
        raise ResourceError(
            f"Matrices in dimension {d} need about {readable(fixed)} of memory and "
            f"this machine has {readable(physical_memory())}; lower `d`."
        )
    row = d * item * _held(spec, spec.frames) * (spec.draws or 1)
    row += HIDDEN * _width(spec, d) * item
    if n * row > room - fixed:
        raise ResourceError(
            f"{n} tokens in dimension {d} need about {readable(n * row)} of memory and "
            f"this machine has {readable(physical_memory())}; at most "
            f"{(room - fixed) // row} tokens fit."
        )
    sums = SCORE_BUFFERS * n * max(n, keys) * item
    if spec.reduction == "dense" and sums > room:
        over = f"{n} tokens" if keys <= n else f"{keys} keys of {n} tokens"
        raise ResourceError(
            f"Dense sums over {over} need {readable(sums)} of memory and this machine "
            f"has {readable(physical_memory())}; use `reduction = blocked`."
        )


def refuse_large_context(spec: RunSpec, numbers: int) -> None:
    """Refuses contexts that move and cannot fit, before they are read.

    Args:
        spec: of the run.
        numbers: that all their frames hold.

    Raises:
        ResourceError: naming what is needed and what there is.
    """
    copies = PASSING + SPLINES * ((spec.draws or 1) - 1)
    size = copies * numbers * (8 if spec.precision == "double" else 4)
    if size > SHARE * physical_memory():
        raise ResourceError(
            f"A context that moves through its frames needs about {readable(size)} of "
            f"memory and this machine has {readable(physical_memory())}; look at one "
            "frame, as RUN:TIME, or at a run of fewer."
        )


def refuse_large_grid(spec: RunSpec, cells: int) -> None:
    """Refuses a grid that cannot fit, before any of it is made.

    Raises:
        ResourceError: naming what is needed, what there is, and what would fit.
    """
    item = 8 if spec.precision == "double" else 4
    each = (_held(spec, spec.frames) + FACES) * item * (spec.draws or 1)
    room = int(SHARE * physical_memory())
    if cells * each > room:
        raise ResourceError(
            f"A grid of {cells} cells needs about {readable(cells * each)} of memory "
            f"and this machine has {readable(physical_memory())}; at most "
            f"{room // each} cells fit."
        )


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


def physical_memory() -> int:
    """The memory of this machine, in bytes.

    Examples:
        >>> from meanfield import runs
        >>> runs.physical_memory() > 2**20
        True
    """
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def readable(size: int | float) -> str:
    """A size in bytes for people: `1.5 GB`.

    Examples:
        >>> from meanfield.runs import readable
        >>> readable(1.5e9), readable(2048)
        ('1.5 GB', '2.05 kB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _width(spec: RunSpec, d: int) -> int:
    """The most units of a perceptron among the drifts of a spec."""
    drifts = (spec.drift, *(layer.drift for layer in spec.layers))
    inner = [drift["W1"] for drift in drifts if drift and "W1" in drift]
    return max((len(W) if isinstance(W, list) else d for W in inner), default=0)


def _held(spec: RunSpec, frames: int) -> int:
    """Copies of the state that are in memory at once."""
    return min(frames, spec.segment + 1) + STAGES
