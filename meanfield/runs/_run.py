"""A run under way: its members, segment by segment."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from meanfield.dynamics import stacked
from meanfield.flows import (
    TOGETHER,
    AbstractStepping,
    AbstractStop,
    Trajectory,
    ensemble,
    flow,
    prepared,
)
from meanfield.spec import RunSpec

from ._build import (
    Member,
    dimension,
    in_full,
    members,
    moved_by,
    noise,
    stepping,
    stops,
    times,
)
from ._endings import Outcome
from ._grids import cells_of, layers_of
from ._measures import (
    Arrays,
    dimension_in,
    dimension_of,
    frame_of,
    frames_of,
    restored,
    static_of,
    still,
)
from ._observe import (
    Energies,
    check_observable,
    observables,
    observed,
    variables,
)
from ._parameters import Draw, embedded
from ._plan import refuse_large_grid, refuse_too_large


@dataclass
class Run:
    """A run under way: its members, where they are, and how those that ended did.

    Attributes:
        spec: with the numbers of its matrix files.
        static: the arrays of the measures that do not move.
        energies: what is observed of each member.
        done: the index of the frame that the members are at.
        observed: what was observed at the last frame.
    """

    spec: RunSpec
    members: list[Member]
    static: Mapping[str, np.ndarray]
    outcomes: list[Outcome]
    ts: Float[np.ndarray, " times"]
    stepping: AbstractStepping
    stops: tuple[AbstractStop, ...]
    energies: list[Energies]
    done: int = 0
    observed: Arrays = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The index of the last frame."""
        return len(self.ts) - 1

    @property
    def over(self) -> bool:
        """Whether nothing is left to integrate."""
        return self.done >= self.last or not any(o.going for o in self.outcomes)

    @property
    def steps(self) -> int:
        """The steps taken so far, by all members."""
        return sum(outcome.accepted for outcome in self.outcomes)


def start(spec: RunSpec) -> Run:
    """A run before its first step; all that can be refused is refused here.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file that the spec names cannot be read.
        NotClosedError: if a Gaussian meets an attention that does not keep it one.
        ResourceError: if it cannot fit into memory.
    """
    spec = embedded(spec)
    if spec.model is None:
        makes_tokens = spec.source is None and not spec.init.startswith("@")
        makes_tokens &= spec.measure == "points" or (
            spec.measure == "gaussian" and spec.init != "gaussian"
        )
        d = dimension(spec)
        refuse_too_large(spec, spec.n if makes_tokens else 0, d)
        if spec.measure == "grid":
            refuse_large_grid(spec, layers_of(spec) * math.prod(cells_of(spec, d)))
    spec = in_full(spec)
    found = members(spec)
    static = static_of(found[0].measure)
    # A resumed run starts from stored arrays; so must the run, to have the same bits.
    stored = [restored(spec, frame_of(m.measure), static) for m in found]
    pairs = zip(found, stored, strict=True)
    run = _run(spec, [Member(m.dynamics, mu) for m, mu in pairs], static)
    _check_field(run)
    check_observable(run.members[0], run.energies[0])
    return run


def continued(
    spec: RunSpec,
    frame: Mapping[str, np.ndarray],
    static: Mapping[str, np.ndarray],
    outcomes: Sequence[Outcome],
) -> Run:
    """A run at a stored frame; files of tokens are no longer needed."""
    d = dimension_in(frame)
    found, same = [], moved_by(spec, d, Draw(spec.seed))
    for i in range(len(outcomes)):
        own = {k: a[i] for k, a in frame.items()} if spec.is_family else frame
        moves = same if spec.draws is None else moved_by(spec, d, Draw(spec.seed, i))
        found.append(Member(moves, restored(spec, own, static)))
    run = _run(spec, found, static)
    run.outcomes = list(outcomes)
    run.observed = {name: frame[name] for name in variables(spec)}
    return run


def integrate_segment(run: Run) -> Arrays:
    """The frames of one more segment, with what is observed at them.

    Its edges come from the spec, not the clock. After an early end the last frame is
    the state it ended with.
    """
    return _with_observables(run, _moved(run))


def _with_observables(run: Run, frames: Arrays) -> Arrays:
    if not frames or not run.energies[0]:
        return frames
    length = min(run.spec.segment, run.last) + 1
    both = zip(run.members, run.energies, strict=True)
    if run.spec.is_family:
        kept = {name: a for name, a in frames.items() if name != "time"}
        each = [
            observables(*pair, {**_own(kept, i), "time": frames["time"]}, length)
            for i, pair in enumerate(both)
        ]
        found = {name: np.stack([one[name] for one in each]) for name in each[0]}
    else:
        found = observables(*next(both), frames, length)
    run.observed = {name: array[..., -1] for name, array in found.items()}
    return {**frames, **found}


def _own(frames: Arrays, index: int) -> Arrays:
    return {name: array[index] for name, array in frames.items()}


def _moved(run: Run) -> Arrays:
    """The frames of one more segment."""
    size = min(run.spec.segment, run.last)
    stop = min(run.done + size, run.last)
    # Every segment has one shape, so that all share one compilation.
    padding = np.full(run.done + size - stop, run.ts[stop])
    ts = np.append(run.ts[run.done : stop + 1], padding)
    advance = _advance_each if run.spec.starts is None else _advance_together
    pieces = advance(run, ts, stop - run.done)
    keep = slice(0 if run.done == 0 else 1, stop - run.done + 1)
    frames = {name: np.stack([p[name][keep] for p in pieces]) for name in pieces[0]}
    kept = run.ts[run.done : stop + 1][keep]
    begun = -math.inf if run.done == 0 else float(run.ts[run.done])
    run.done = stop
    if run.spec.is_family:
        return {"time": kept, **frames}
    frames = {"time": kept, **{name: array[0] for name, array in frames.items()}}
    return frames if run.outcomes[0].going else _with_end(run, frames, begun)


def _with_end(run: Run, frames: Arrays, begun: float) -> Arrays:
    """Frames up to where a flow ended, and that state as the last.

    None at all if it ended where the segment begun: that frame is stored.
    """
    end = frames["time"].dtype.type(run.outcomes[0].time)
    if end <= begun:
        return {}
    before = frames["time"] < end
    last = {"time": np.asarray(end), **frame_of(run.members[0].measure)}
    return {
        name: np.concatenate([array[before], last[name][None]])
        for name, array in frames.items()
    }


def _run(spec: RunSpec, members: list[Member], static: Mapping[str, np.ndarray]) -> Run:
    ts = times(spec)
    outcomes = [Outcome.at_start(float(ts[0])) for _ in members]
    d = dimension_of(members[0].measure)
    draws = 1 if spec.draws is None else len(members)
    found = [observed(spec, d, Draw(spec.seed, i)) for i in range(draws)]
    return Run(
        spec,
        members,
        static,
        outcomes,
        ts,
        stepping(spec, ts),
        stops(spec),
        found * (len(members) // draws),
    )


def _check_field(run: Run) -> None:
    """Lets pairs that do not work fail before anything is written."""
    prepared(
        run.members[0].dynamics,
        run.members[0].measure,
        run.ts[:2],
        stepping=run.stepping,
        stop=run.stops,
        since=None,
        noise=noise(run.spec),
        key=Draw(run.spec.seed).key("noise"),
    )


def _advance_each(run: Run, ts: np.ndarray, end: int) -> list[Arrays]:
    """Moves members, each under its own dynamics, to the end of the segment."""
    pieces = [still(own.measure, len(ts)) for own in run.members]
    for i, outcome in enumerate(run.outcomes):
        if outcome.going:
            pieces[i] = _advance(run, i, ts, end)
    return pieces


def _advance(run: Run, index: int, ts: np.ndarray, end: int) -> Arrays:
    own = run.members[index]
    trajectory = flow(
        own.dynamics,
        own.measure,
        ts,
        stepping=run.stepping,
        stop=run.stops,
        since=float(run.ts[0]),
        noise=noise(run.spec),
        key=Draw(run.spec.seed, index).key("noise"),
    )
    return _arrived(run, index, jax.block_until_ready(trajectory), end)


def _advance_together(run: Run, ts: np.ndarray, end: int) -> list[Arrays]:
    """Moves members that share their dynamics; those that have ended stay."""
    pieces = [still(own.measure, len(ts)) for own in run.members]
    going = [i for i, outcome in enumerate(run.outcomes) if outcome.going]
    trajectories = ensemble(
        run.members[0].dynamics,
        stacked([run.members[i].measure for i in going]),
        ts,
        together=min(TOGETHER, len(run.members)),  # one shape, however few go on
        stepping=run.stepping,
        stop=run.stops,
        since=float(run.ts[0]),
        noise=noise(run.spec),
    )
    on_host = jax.tree.map(np.asarray, trajectories)
    for row, index in enumerate(going):
        own = jax.tree.map(lambda array, row=row: jnp.asarray(array[row]), on_host)
        pieces[index] = _arrived(run, index, own, end)
    return pieces


def _arrived(run: Run, index: int, trajectory: Trajectory, end: int) -> Arrays:
    """The frames of a member, which is then where the segment ends."""
    own, before = run.members[index], run.outcomes[index]
    after = before.after(trajectory, float(run.ts[-1]))
    # Going on starts from the stored frame, and from nothing that the flow chose for
    # itself on the way, so that a resumed run has the same bits.
    arrived = trajectory.at(end) if after.going else trajectory.final
    measure = own.measure.at(arrived.coordinates)
    run.outcomes[index] = after
    run.members[index] = Member(own.dynamics, measure)
    return frames_of(own.measure, trajectory.coordinates)
