"""A chunk of a sweep as one compiled call, and the numbers that it comes to."""

import contextlib
import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from meanfield.dynamics import stacked
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, MeanfieldError
from meanfield.flows import Trajectory, ensemble, motion_of
from meanfield.measures import AbstractMeasure
from meanfield.runs.execution._run import start
from meanfield.runs.records._endings import Outcome
from meanfield.runs.representations import moments_of, representation_of
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import KEYS, cell_name
from meanfield.spectrum import effective_rank

from ._cells import Cells, is_array

LARGEST_SHOWN = 4  # dimension up to which entries of moments are reported
TOGETHER = 64  # cells in a chunk, if the sweep is large and they are small
TRIED = 200  # values of an axis that are tried before a sweep begins
NUMBERS = 2**16  # entries of covariances in a chunk, at most
CHUNKS = 8  # into which a small sweep is cut, for progress and workers to share

# Numbers that only one part of a member depends on.
_OF_START, _OF_DYNAMICS = (
    [name for name, row in KEYS.items() if row.enters == part]
    for part in ("start", "dynamics")
)
_KEPT = 16  # parts that are kept, for each cell of a chunk

Rows = dict[str, list[Any]]


def checked(cells: Cells, chunk: int | None) -> tuple[int, int]:
    """The number of programs to compile, and of cells in a chunk.

    Every program and every value of every axis is tried, without integrating.

    Args:
        cells: those of the sweep.
        chunk: the number of cells in a chunk, if it is given.

    Raises:
        MeanfieldError: the library's own, naming the cell that it refuses.
    """
    programs: set[Hashable] = set()
    numbers, abreast = 1, TOGETHER  # large clouds and grids fill the machine alone
    for index in cells.heads:
        spec = cells.run_spec(index)
        with _in_cell(cells, index):
            run = start(spec)
        mu = run.members[0].measure if run.first is None else run.first[0].mu0
        numbers = max(numbers, mu.dimension**2)
        abreast = min(abreast, motion_of(mu).abreast(mu))
        steps = None if spec.dt is None else float(run.ts[-1] - run.ts[0])
        tree = (run.members[0].dynamics, mu, run.stepping, run.setup.steps.stops)
        programs.add((*_static(tree), *_shapes(tree), steps))
    share = -(-cells.count // CHUNKS)
    fits = min(abreast, NUMBERS // numbers, share, cells.longest_chunk)
    size = chunk or max(1, fits)
    _try_values(cells, size)
    return len(programs), size


def _try_values(cells: Cells, size: int) -> None:
    """Makes a member for each value of each axis, the others at their first."""
    for axis in cells.axes:
        side_by_side = []
        for index in _some(cells.varied([axis])):
            setup = Setup(cells.run_spec(index))
            with _in_cell(cells, index):
                t, trial = float(setup.ts[0]), setup.member()
                _check_field(trial, t)
            if is_array(axis) and size > 1:
                side_by_side.append(trial)
        _check_alike(side_by_side)


def _some(indices: Sequence[int]) -> list[int]:
    """At most `TRIED` of them, evenly spaced, both ends included."""
    places = np.unique(np.linspace(0, len(indices) - 1, TRIED).round().astype(int))
    return [indices[i] for i in places]


def _check_field(trial: Member, t: float) -> None:
    """Lets a field refuse the numbers of a cell."""
    eqx.filter_eval_shape(lambda: trial.dynamics.field(t, trial.measure))


class Computer:
    """Computes chunks of a sweep, and keeps the parts that cells share.

    Args:
        cells: those of the sweep.
        size: how many of them a chunk has.
    """

    def __init__(self, cells: Cells, size: int) -> None:
        self._cells = cells
        self._part = functools.lru_cache(_KEPT * size)(lambda i: _member(cells, i))

    def __call__(self, indices: Sequence[int]) -> Rows:
        """The reported numbers of a chunk of cells; an index that repeats fills it up.

        Raises:
            MeanfieldError: the library's own, naming the cell that it refuses.
        """
        cells = list(dict.fromkeys(indices))
        filled = cells + cells[-1:] * (len(indices) - len(cells))
        members = [self._member(i) for i in filled]
        _check_alike(members)
        setup = Setup(self._cells.run_spec(cells[0]))
        steps, ts, moves = setup.steps, setup.ts, members[0].dynamics
        segments = -(-(len(ts) - 1) // steps.segment)  # `max_steps` counts in each
        steps, ts = replace(steps, max_steps=segments * steps.max_steps), ts[[0, -1]]
        seeds = filled if setup.spec.noise is not None else ()  # each cell by its own
        keys = [Setup(self._cells.run_spec(i)).noise_key(0) for i in seeds]
        trajectory = ensemble(
            stacked([m.dynamics for m in members]),
            stacked([m.measure for m in members]),
            ts,
            in_axes=(0, 0),
            together=len(members),
            stepping=setup.representation.stepping(steps, ts, moves),
            stop=steps.stops,
            noise=steps.noise,
            key=jnp.stack(keys) if keys else None,
        )
        rows = _numbers(trajectory, [m.measure for m in members])
        rows = {name: rows[name][: len(cells)] for name in rows}
        if setup.representation.remembers_start:
            rows |= self._doubts(cells, members, trajectory)
        return {"cell": cells, **rows}

    def _doubts(
        self, cells: Sequence[int], members: Sequence[Member], trajectory: Trajectory
    ) -> Rows:
        """How flows ended, with what is in doubt of them."""
        outcomes = []
        for i, (cell, origin) in enumerate(zip(cells, members, strict=False)):
            last = jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), trajectory.last)
            outcome = Outcome(
                Status(int(trajectory.code[i])), float(trajectory.stop_time[i])
            )
            setup, end = Setup(self._cells.run_spec(cell)), origin.measure.at(last)
            outcomes.append(setup.estimate_errors(origin, end, outcome))
        worst = [None if o.doubt is None else _plain(o.doubt.worst) for o in outcomes]
        return {"ending": [o.name for o in outcomes], "doubt": worst}

    def _member(self, index: int) -> Member:
        """A cell out of parts: dynamics know nothing of the start, nor it of them."""
        moves = self._part(self._cells.with_first(index, _OF_START))
        start = self._part(self._cells.with_first(index, _OF_DYNAMICS))
        return Member(moves.dynamics, start.measure)


def _member(cells: Cells, index: int) -> Member:
    setup = Setup(cells.run_spec(index))
    with _in_cell(cells, index):
        return setup.member()


@contextlib.contextmanager
def _in_cell(cells: Cells, index: int) -> Iterator[None]:
    """Errors begin with the name of the cell."""
    try:
        yield
    except MeanfieldError as error:
        name = cell_name(cells.values(index))
        raise type(error)(f"In the cell {name}: {error}") from error


def _numbers(trajectory: Trajectory, starts: Sequence[AbstractMeasure]) -> Rows:
    """The reported numbers, a list of one number or name for each member."""
    host = jax.tree.map(np.asarray, trajectory)
    ends = [
        mu.at(jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), host.last))
        for i, mu in enumerate(starts)
    ]
    moments = zip(*map(moments_of, ends), strict=True)
    mean, cov = (np.stack(part).astype(float) for part in moments)
    home = representation_of(starts[0])
    others = [home.observables(*pair) for pair in zip(starts, ends, strict=True)]
    columns: Mapping[str, np.ndarray] = {
        "stop_time": host.stop_time,
        "t_star": host.t_star,
        "t_star_error": host.t_star_error,
        "steps": host.n_accepted,
        **_spectrum(cov),
        **{name: np.array([row[name] for row in others]) for name in others[0]},
        **(_entries(mean, cov) if mean.shape[1] <= LARGEST_SHOWN else {}),
    }
    rows = {k: [_plain(v) for v in np.asarray(column)] for k, column in columns.items()}
    return {"ending": [Status(int(code)).ending for code in host.code], **rows}


def _spectrum(cov: np.ndarray) -> dict[str, np.ndarray]:
    finite = np.isfinite(cov).all(axis=(1, 2))
    eigenvalues = np.full(cov.shape[:2], np.nan)
    # A covariance has no negative ones: those found are rounding.
    eigenvalues[finite] = np.maximum(np.linalg.eigvalsh(cov[finite]), 0)
    return {
        "trace": np.trace(cov, axis1=1, axis2=2),
        "largest_eigenvalue": eigenvalues[:, -1],
        "smallest_eigenvalue": eigenvalues[:, 0],
        "effective_rank": np.where(finite, effective_rank(eigenvalues), np.nan),
    }


def _entries(mean: np.ndarray, cov: np.ndarray) -> dict[str, np.ndarray]:
    d = range(mean.shape[1])
    means = {f"mean{i}": mean[:, i] for i in d}
    return means | {f"cov{i}{j}": cov[:, i, j] for i in d for j in d}


def _plain(value: np.generic | float) -> int | float | None:
    """A number of Python; `None` where there is none."""
    return np.asarray(value).item() if np.isfinite(value) else None


def _check_alike(members: Sequence[Member]) -> None:
    """Numbers that are no arrays are part of a program: all its cells share them."""
    statics = [_static((m.dynamics, m.measure)) for m in members]
    if any(static != statics[0] for static in statics):
        raise InvalidInputError(
            "The cells differ in numbers that the attention does not hold as arrays; "
            "make them arrays, or compute one cell at a time with `--chunk 1`."
        )


def _static(tree: PyTree) -> tuple[Hashable, ...]:
    """All that is not an array."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array, inverse=True))
    return jax.tree.structure(tree), *leaves


def _shapes(tree: PyTree) -> tuple[Hashable, ...]:
    arrays: list[Array] = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return tuple((array.shape, array.dtype.name) for array in arrays)
