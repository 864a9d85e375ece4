"""One segment of a run: its members move, and what is asked for is observed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from meanfield import models
from meanfield.dynamics import AbstractDynamics, stacked
from meanfield.endings import Status
from meanfield.flows import (
    BlowUpTime,
    Trajectory,
    ensemble,
    followed,
    motion_of,
)
from meanfield.measures import AbstractMeasure
from meanfield.runs.building._build import Member, noise, side_by_side
from meanfield.runs.building._precision import dtype_of
from meanfield.runs.records._fall import Fall
from meanfield.runs.records._vocabulary import text_of
from meanfield.runs.representations import (
    Arrays,
    frame_of,
    misses_at_most,
    representation_of,
    restored,
    still,
    sums_of,
)

from ._observe import observables
from ._run import Run, noise_key, prepared_flow
from ._sharing import shares_members


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
    pairs = zip(run.members, run.energies, strict=True)
    if run.spec.is_family:
        arrays = {name: a for name, a in frames.items() if name != "time"}
        parts = [
            observables(*pair, {**_own(arrays, i), "time": frames["time"]}, length)
            for i, pair in enumerate(pairs)
        ]
        values = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    else:
        values = observables(*next(pairs), frames, length)
    if run.observed:
        values = {name: values[name] for name in run.observed}
    run.observed = {name: array[..., -1] for name, array in values.items()}
    if run.spec.flow_of is not None and "energy" in values:
        known, energy = run.fall, values["energy"]
        run.fall = Fall.of(energy) if known is None else known.after(energy)
    return {**frames, **values}


def _own(frames: Arrays, index: int) -> Arrays:
    return {name: array[index] for name, array in frames.items()}


def _moved(run: Run) -> Arrays:
    """The frames of one more segment."""
    if run.spec.forward:
        return network_frames(run)
    stop = min(run.done + run.spec.segment, run.last)
    pieces = _advance(run, stop - run.done)
    keep = slice(0 if run.done == 0 else 1, stop - run.done + 1)
    times = run.ts[run.done : stop + 1][keep]
    begin = -math.inf if run.done == 0 else float(run.ts[run.done])
    run.done, run.first = stop, None
    if run.spec.is_family:
        stacks = {n: np.stack([p[n][keep] for p in pieces]) for n in pieces[0]}
        return {"time": times, **stacks}
    frames = {"time": times, **{name: a[keep] for name, a in pieces[0].items()}}
    return frames if run.outcomes[0].going else _with_end(run, frames, begin)


def network_frames(run: Run) -> Arrays:
    """All frames of a network's own states: the embedding, and those after each layer.

    They come in one segment, computed in double precision whatever the run stores.

    Raises:
        InputFileError: if a file is missing or damaged, or the config names an
            activation that is not known.
    """
    spec = run.spec
    states, _ = models.hidden_states(models.load(str(spec.model)), text_of(spec))
    x = states.astype(dtype_of(spec))
    last = restored(spec, {"x": x[-1]}, run.static)
    run.members = [Member(run.members[0].dynamics, last)]
    end = float(run.ts[-1])
    run.outcomes = [replace(run.outcomes[0], status=Status.FINISHED, time=end)]
    run.done, run.first, run.sums = run.last, None, "none"
    return {"time": run.ts, "x": x}


def _with_end(run: Run, frames: Arrays, begin: float) -> Arrays:
    """Frames up to where a flow ended, and that state as the last.

    None at all if it ended where the segment begun: that frame is stored.
    """
    end = frames["time"].dtype.type(run.outcomes[0].time)
    if end <= begin:
        return {}
    before = frames["time"] < end
    last = {"time": np.asarray(end), **frame_of(run.members[0].measure)}
    return {
        name: np.concatenate([array[before], last[name][None]])
        for name, array in frames.items()
    }


def _advance(run: Run, end: int) -> list[Arrays]:
    """Moves members to the end of the segment; those that have ended stay."""
    length = len(run.segment)
    pieces = [still(member.measure, length) for member in run.members]
    indices = [i for i, outcome in enumerate(run.outcomes) if outcome.going]
    for index, trajectory in zip(indices, _trajectories(run, indices), strict=True):
        pieces[index] = _arrived(run, index, trajectory, end)
    return pieces


def _trajectories(run: Run, indices: Sequence[int]) -> Iterable[Trajectory]:
    """Those of some members through the segment, by all processes."""
    if side_by_side(run.spec, run.members):
        return _shared(run, indices, _together)
    if run.layout is None or not shares_members(run.spec, run.members):
        return (jax.block_until_ready(_trajectory(run, index)) for index in indices)
    rows = _shared(run, indices, _one_by_one)
    # What a flow has chosen for itself at its start stays in the process that chose it.
    pairs = zip(rows, indices, strict=True)
    return (_starting_at(run.members[i].measure, row) for row, i in pairs)


def _shared(
    run: Run,
    indices: Sequence[int],
    move: Callable[[Run, Sequence[int]], Trajectory],
) -> Iterator[Trajectory]:
    """Those of some members, of which each process moves its share."""
    if run.layout is None:
        trajectories = move(run, indices)
    else:
        trajectories = run.layout.joined(move(run, run.layout.share(indices)))
    on_host = jax.tree.map(np.asarray, trajectories)
    for row in range(len(indices)):
        yield jax.tree.map(lambda array, row=row: jnp.asarray(array[row]), on_host)


def _trajectory(run: Run, index: int) -> Trajectory:
    """The trajectory of one member through the segment."""
    known = run.first if index == 0 else None
    problem, ts = prepared_flow(run, index) if known is None else known
    due, until = _told(run.outcomes[index].due), float(run.ts[-1])
    if run.layout is None or shares_members(run.spec, run.members):
        return followed(problem, ts, due=due, until=until)
    return run.layout.followed(problem, ts, due=due, until=until)


def _one_by_one(run: Run, indices: Sequence[int]) -> Trajectory:
    """The trajectories of some members, each as it is alone, without their starts."""
    moved = {i: _starting_at(None, _trajectory(run, i)) for i in indices}
    stack = lambda *leaves: jnp.stack(leaves)
    return jax.tree.map(stack, *[moved[i] for i in indices])


def _starting_at(mu: AbstractMeasure | None, trajectory: Trajectory) -> Trajectory:
    is_none = lambda part: part is None
    return eqx.tree_at(lambda t: t.start, trajectory, mu, is_leaf=is_none)


def _together(run: Run, indices: Sequence[int]) -> Trajectory:
    """The trajectories of some members, side by side."""
    measures = stacked([run.members[i].measure for i in indices])
    together = motion_of(measures).abreast(measures)
    law, axis = _law(run, indices)
    return ensemble(
        law,
        measures,
        run.segment,
        in_axes=(axis, 0),
        together=min(together, len(run.members)),  # however few go on
        stepping=run.stepping,
        stop=run.stops,
        since=float(run.ts[0]),
        due=_told_all([run.outcomes[i].due for i in indices]),
        until=float(run.ts[-1]),
        noise=noise(run.spec),
        key=None if run.spec.starts else _keys(run, indices),
        devices=() if run.layout is None else run.layout.own,
    )


def _law(run: Run, indices: Sequence[int]) -> tuple[AbstractDynamics, int | None]:
    """What moves members: one for all, whose axis is `None`, or a stack of theirs."""
    first, *others = (jax.tree.leaves(member.dynamics) for member in run.members)
    same = lambda leaves: all(map(np.array_equal, first, leaves))
    if all(map(same, others)):
        return run.members[0].dynamics, None
    return stacked([run.members[i].dynamics for i in indices]), 0


def _keys(run: Run, indices: Sequence[int]) -> Key[Array, " n"] | None:
    """The keys of their noise; `None` without any."""
    keys = [noise_key(run, index) for index in indices]
    return jnp.stack(keys) if run.spec.noise else None


def _told(due: tuple[float, float] | None) -> BlowUpTime | None:
    """When the exact flow blows up, where an earlier segment found it out."""
    return None if due is None else BlowUpTime(*map(jnp.asarray, due))


def _told_all(dues: Sequence[tuple[float, float] | None]) -> BlowUpTime | None:
    pairs = [due for due in dues if due is not None]
    if len(pairs) < len(dues):
        return None
    return BlowUpTime(*map(jnp.asarray, zip(*pairs, strict=True)))


def _arrived(run: Run, index: int, trajectory: Trajectory, end: int) -> Arrays:
    """The frames of a member, which is then where the segment ends."""
    member, before = run.members[index], run.outcomes[index]
    at_most = misses_at_most(trajectory.start, member.dynamics)
    after = before.after(trajectory, float(run.ts[-1]), at_most=at_most)
    home = representation_of(member.measure)
    frames = home.frames(member.measure, trajectory.coordinates)
    # Going on starts from the stored frame, and from nothing that the flow chose for
    # itself on the way, so that a resumed run has the same bits.
    final = {name: array[end] for name, array in frames.items()}
    end_coordinates = (
        home.coordinates(member.measure, final) if after.going else trajectory.last
    )
    measure = motion_of(member.measure).unplanned(member.measure).at(end_coordinates)
    if index == 0:
        run.sums = sums_of(trajectory.start, member.dynamics)
    run.outcomes[index] = after
    run.members[index] = Member(member.dynamics, measure)
    return frames
