"""Computes a chunk of a sweep in one compiled call."""

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from meanfield.dynamics import stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, MeanfieldError
from meanfield.flows import Trajectory, ensemble, motion_of
from meanfield.runs.execution._run import start
from meanfield.runs.records._endings import Outcome
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import KEYS, cell_name

from ._cells import SweepCells, is_array
from ._numbers import Rows, cell_numbers, observed_columns, plain_number, state_numbers

T = TypeVar("T")

MAX_CHUNK = 64  # largest default number of cells in a chunk
MAX_TRIALS = 200  # largest number of values per axis that are checked in advance
NUMBERS = 2**16  # largest total number of covariance entries in a chunk
CHUNKS = 8  # fewest chunks of a small sweep, so that several workers can share it

# Some keys only affect the start of a member, and others only its dynamics.
_START_KEYS, _DYNAMICS_KEYS, _DRAW_KEYS = (
    [name for name, row in KEYS.items() if row.enters == part]
    for part in ("start", "dynamics", "draw")
)
# Keys of the dynamics whose values have parts, which may be names of random laws.
_COMPOSITE_KEYS = ["context", "flow_of"]
_COMPOSITE_KEYS += [
    name
    for name, row in KEYS.items()
    if row.holds != "plain" and row.enters not in ("start", "draw")
]
# Number of cached starts, and of dynamics, per cell of a chunk: small or large clouds.
_SMALL, _LARGE = 64, 16


def plan_chunks(cells: SweepCells, chunk: int | None) -> tuple[int, int]:
    """The number of programs to compile, and the number of cells in a chunk.

    Each program, and up to `MAX_TRIALS` values of each axis, are checked without
    integrating.

    Args:
        cells: the cells of the sweep.
        chunk: the number of cells in a chunk; chosen here if `None`.

    Raises:
        MeanfieldError: or a subclass, if a cell is invalid; the message names it.
    """
    programs: set[Hashable] = set()
    numbers, batch_size = 1, MAX_CHUNK  # large clouds or grids form smaller batches
    for index in cells.program_cells:
        spec = cells.run_spec(index)
        with _label_errors(cells, index):
            run = start(spec)
        mu = run.members[0].measure if run.first_flow is None else run.first_flow[0].mu0
        numbers = max(numbers, mu.dimension**2)
        batch_size = min(batch_size, motion_of(mu).batch_size(mu))
        steps = None if spec.dt is None else float(run.ts[-1] - run.ts[0])
        tree = (run.members[0].dynamics, mu, run.stepping, run.setup.steps.stops)
        if cells.observed_names:
            stack = jax.tree.map(lambda leaf: np.asarray(leaf)[None], mu.coordinates)
            names = cells.observed_names
            observed_columns(names, state_numbers(stack, [mu], names))
        programs.add((*_static(tree), *_shapes(tree), steps))
    share = -(-cells.count // CHUNKS)
    fits = min(batch_size, NUMBERS // numbers, share, cells.longest_chunk)
    size = chunk or max(1, fits)
    _try_values(cells, size)
    return len(programs), size


def _try_values(cells: SweepCells, size: int) -> None:
    """Checks the values of each axis, with the other axes at their first value."""
    for axis in cells.axes:
        trials = []
        for index in _sample_indices(cells.cells_along([axis])):
            setup = Setup(cells.run_spec(index))
            with _label_errors(cells, index):
                t, trial = float(setup.ts[0]), setup.member()
                _check_field(trial, t)
            if is_array(axis):
                trials.append(trial)
        _check_same_program(trials if size > 1 else [])
        is_drawn = KEYS[axis.key].enters == "draw" and cells.spec.noise is None
        if is_drawn and len(trials) > 1:
            _check_effect(axis.name, trials)


def _check_effect(name: str, trials: Sequence[Member]) -> None:
    """Checks that the first two values of an axis give different flows.

    Raises:
        InvalidInputError: if they give the same start and the same parameters.
    """
    if all(map(np.array_equal, *map(_arrays, trials[:2]))):
        raise InvalidInputError(
            f"The axis `{name}` has no effect, since neither the start nor a matrix is "
            "random: leave it out."
        )


def _arrays(trial: Member) -> list[Array]:
    return jax.tree.leaves(eqx.filter((trial.dynamics, trial.measure), eqx.is_array))


def _sample_indices(indices: Sequence[int]) -> list[int]:
    """At most `MAX_TRIALS` of the indices, evenly spaced, both ends included."""
    places = np.unique(np.linspace(0, len(indices) - 1, MAX_TRIALS).round().astype(int))
    return [indices[i] for i in places]


def _check_field(trial: Member, t: float) -> None:
    """Traces the field of a cell; this raises if parameters of the cell are invalid."""
    eqx.filter_eval_shape(lambda: trial.dynamics.field(t, trial.measure))


class Computer:
    """Computes chunks of a sweep, and caches the parts that cells share.

    Args:
        cells: the cells of the sweep.
        size: the number of cells in a chunk.
    """

    def __init__(self, cells: SweepCells, size: int) -> None:
        self._cells = cells
        cache = functools.lru_cache(size * (_SMALL if size >= MAX_CHUNK else _LARGE))
        self._has_text = cache(lambda index: _has_text(cells.run_spec(index).as_json()))
        self._dynamics = cache(functools.partial(_part, cells, Setup.dynamics))
        self._start = cache(functools.partial(_part, cells, Setup.measure))

    def __call__(self, indices: Sequence[int]) -> Rows:
        """The results of a chunk, by column; cells that fill up the chunk are left out.

        Raises:
            MeanfieldError: or a subclass, if a cell is invalid; the message names it.
        """
        cells = list(dict.fromkeys(indices))
        chunk = cells + cells[-1:] * (len(indices) - len(cells))
        members = [self._member(i) for i in chunk]
        _check_same_program(members)
        setup = Setup(self._cells.run_spec(cells[0]))
        steps, ts, dynamics = setup.steps, setup.ts, members[0].dynamics
        segments = -(-(len(ts) - 1) // steps.segment)  # `max_steps` is per segment
        steps = replace(steps, max_steps=segments * steps.max_steps)
        ts = ts if self._cells.observed_names else ts[[0, -1]]
        seeds = chunk if setup.spec.noise is not None else ()  # noise differs by cell
        keys = [Setup(self._cells.run_spec(i)).noise_key(0) for i in seeds]
        trajectory = ensemble(
            stack_trees([m.dynamics for m in members]),
            stack_trees([m.measure for m in members]),
            ts,
            in_axes=(0, 0),
            batch_size=len(members),
            stepping=setup.representation.stepping(steps, ts, dynamics),
            stop=steps.stops,
            noise=steps.noise,
            key=jnp.stack(keys) if keys else None,
        )
        measures, names = [m.measure for m in members], self._cells.observed_names
        rows = cell_numbers(trajectory, measures, names)
        rows = {name: rows[name][: len(cells)] for name in rows}
        if setup.representation.needs_start:
            rows |= self._error_estimates(cells, members, trajectory)
        return {"cell": cells, **rows}

    def _error_estimates(
        self, cells: Sequence[int], members: Sequence[Member], trajectory: Trajectory
    ) -> Rows:
        """The endings and error estimates of the cells of a chunk."""
        outcomes = []
        for i, (cell, origin) in enumerate(zip(cells, members, strict=False)):
            status = Status(int(trajectory.code[i]))
            outcome = Outcome(status, float(trajectory.stop_time[i]))
            last = jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), trajectory.last)
            end = origin.measure.replace_coordinates(last)
            setup = Setup(self._cells.run_spec(cell))
            outcomes.append(setup.estimate_errors(origin, end, outcome))
        estimates = [outcome.error_estimate for outcome in outcomes]
        worst = [None if e is None else plain_number(e.worst) for e in estimates]
        return {"ending": [o.name for o in outcomes], "error_estimate": worst}

    def _member(self, index: int) -> Member:
        """The member of a cell, from cached dynamics and a cached start.

        Dynamics do not depend on keys of a start, nor a start on keys of dynamics.
        Seeds change only dynamics with a text in their spec, such as the name of a law.
        """
        find = self._cells.canonical_cell
        first = find(index, (*_START_KEYS, *_DRAW_KEYS))
        cell = find(index, _START_KEYS) if self._has_text(first) else first
        return Member(self._dynamics(cell), self._start(find(index, _DYNAMICS_KEYS)))


def _has_text(keys: Mapping[str, Any]) -> bool:
    """Whether a key of the dynamics, or a part of its value, is a text."""
    leaves = jax.tree.leaves([keys.get(name) for name in _COMPOSITE_KEYS])
    return any(isinstance(leaf, str) for leaf in leaves)


def _part(cells: SweepCells, make: Callable[[Setup], T], index: int) -> T:
    """The dynamics or the start of a cell."""
    with _label_errors(cells, index):
        return make(Setup(cells.run_spec(index)))


@contextlib.contextmanager
def _label_errors(cells: SweepCells, index: int) -> Iterator[None]:
    """Prefixes errors with the name of the cell."""
    try:
        yield
    except MeanfieldError as error:
        name = cell_name(cells.values(index))
        raise type(error)(f"In the cell {name}: {error}") from error


def _check_same_program(members: Sequence[Member]) -> None:
    """Checks that members differ only in arrays, so that one program computes all."""
    statics = [_static((m.dynamics, m.measure)) for m in members]
    if any(static != statics[0] for static in statics):
        raise InvalidInputError(
            "The cells of a chunk differ in parameters of the attention that are not "
            "arrays; make these parameters arrays, or pass `--chunk 1`."
        )


def _static(tree: PyTree) -> tuple[Hashable, ...]:
    """The structure of a tree and its leaves that are not arrays."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array, inverse=True))
    return jax.tree.structure(tree), *leaves


def _shapes(tree: PyTree) -> tuple[Hashable, ...]:
    arrays: list[Array] = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return tuple((array.shape, array.dtype.name) for array in arrays)
