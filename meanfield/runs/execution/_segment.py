"""One segment of a run: its members move, and what is asked for is observed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

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
from meanfield.runs.records._endings import Outcome
from meanfield.runs.records._fall import Fall
from meanfield.runs.representations import (
    Arrays,
    frame_of,
    misses_at_most,
    representation_of,
    still,
    sums_of,
)
from meanfield.runs.setup._observe import observables
from meanfield.runs.setup._setup import Member

from ._run import Run

Move = Callable[[Run, Sequence[int]], Trajectory]


def advance(run: Run) -> Run:
    """The run one segment on, with its frames and what is observed at them.

    The edges of segments come from the spec, not the clock. After an early end the last
    frame is the state it ended with.
    """
    run = forward_pass(run) if run.spec.forward else _flow_members(run)
    run = _observe(run) if run.frames and run.energies[0] else run
    if run.over and run.origins:
        run = replace(run, outcomes=_estimate_errors(run))
    return run


def _estimate_errors(run: Run) -> tuple[Outcome, ...]:
    """How the members of a run ended, with what is in doubt of them."""
    members = zip(run.members, run.origins, run.outcomes, strict=True)
    return tuple(
        run.setup.estimate_errors(
            replace(member, measure=origin), member.measure, outcome, i
        )
        for i, (member, origin, outcome) in enumerate(members)
    )


def _observe(run: Run) -> Run:
    """The same run, with what is observed among its frames."""
    length = min(run.setup.steps.segment, run.last) + 1
    pairs, times = zip(run.members, run.energies, strict=True), run.frames["time"]
    if run.spec.is_family:
        arrays = {name: a for name, a in run.frames.items() if name != "time"}
        own = lambda i: {"time": times, **{name: a[i] for name, a in arrays.items()}}
        parts = [observables(*pair, own(i), length) for i, pair in enumerate(pairs)]
        values = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    else:
        values = observables(*next(pairs), run.frames, length)
    if run.observed:
        values = {name: values[name] for name in run.observed}
    fall = run.fall
    if run.spec.flow_of is not None and "energy" in values:
        energy = values["energy"]
        fall = Fall.of(energy) if fall is None else fall.after(energy)
    last = {name: array[..., -1] for name, array in values.items()}
    return replace(run, frames={**run.frames, **values}, observed=last, fall=fall)


def forward_pass(run: Run) -> Run:
    """A run with a network's own states: the embedding, and those after each layer.

    They come in one segment, computed in double precision whatever the run stores.

    Raises:
        InputFileError: if a file is missing or damaged, or the config names an
            activation that is not known.
    """
    spec = run.spec
    checkpoint, text = models.load(str(spec.model)), models.text_in(str(spec.text))
    states, _ = models.hidden_states(checkpoint, text)
    x = states.astype(run.setup.dtype)
    last = run.setup.restore({"x": x[-1]}, run.static)
    before, end = run.outcomes[0], float(run.ts[-1])
    return replace(
        run,
        members=(Member(run.members[0].dynamics, last),),
        outcomes=(replace(before, status=Status.FINISHED, time=end),),
        done=run.last,
        first=None,
        sums="none",
        frames={"time": run.ts, "x": x},
    )


def _flow_members(run: Run) -> Run:
    """The run one segment on; members that have ended stay where they are."""
    stop = min(run.done + run.setup.steps.segment, run.last)
    length, count = len(run.segment), stop - run.done
    pieces = [still(member.measure, length) for member in run.members]
    members, outcomes, sums = list(run.members), list(run.outcomes), run.sums
    indices = [i for i, outcome in enumerate(outcomes) if outcome.going]
    for i, trajectory in zip(indices, _trajectories(run, indices), strict=True):
        mu, moves = members[i].measure, members[i].dynamics
        outcomes[i] = outcomes[i].after(
            trajectory,
            float(run.ts[-1]),
            at_most=misses_at_most(trajectory.start, moves),
        )
        sums = sums_of(trajectory.start, moves) if i == 0 else sums
        pieces[i], end = _end_of_segment(mu, trajectory, count, outcomes[i])
        members[i] = Member(moves, end)
    parts = {"members": tuple(members), "outcomes": tuple(outcomes)}
    moved = replace(run, **parts, sums=sums, done=stop, first=None)
    return replace(moved, frames=_frames(run, moved, pieces))


def _frames(before: Run, run: Run, pieces: Sequence[Arrays]) -> Arrays:
    """The frames of a segment that no segment before it has stored."""
    keep = slice(0 if before.done == 0 else 1, run.done - before.done + 1)
    times = run.ts[before.done : run.done + 1][keep]
    if run.spec.is_family:
        stacks = {n: np.stack([p[n][keep] for p in pieces]) for n in pieces[0]}
        return {"time": times, **stacks}
    frames = {"time": times, **{name: a[keep] for name, a in pieces[0].items()}}
    if run.outcomes[0].going:
        return frames
    begin = -math.inf if before.done == 0 else float(run.ts[before.done])
    return _with_end(run, frames, begin)


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


def _end_of_segment(
    mu: AbstractMeasure, trajectory: Trajectory, count: int, outcome: Outcome
) -> tuple[Arrays, AbstractMeasure]:
    """The frames of a member, and its measure where the segment ends."""
    home = representation_of(mu)
    frames = home.frames(mu, trajectory.coordinates)
    # Going on starts from the stored frame, and from nothing that the flow chose for
    # itself on the way, so that a resumed run has the same bits.
    final = {name: array[count] for name, array in frames.items()}
    end = home.coordinates(mu, final) if outcome.going else trajectory.last
    return frames, motion_of(mu).unplanned(mu).at(end)


def _trajectories(run: Run, indices: Sequence[int]) -> Iterable[Trajectory]:
    """Those of some members through the segment, by all processes."""
    if run.is_batched:
        return _in_processes(run, indices, _in_batch)
    if run.layout is None or not run.shares_members:
        return (jax.block_until_ready(_trajectory(run, index)) for index in indices)
    rows = _in_processes(run, indices, _one_by_one)
    # What a flow has chosen for itself at its start stays in the process that chose it.
    pairs = zip(rows, indices, strict=True)
    return (_starting_at(run.members[i].measure, row) for row, i in pairs)


def _in_processes(run: Run, indices: Sequence[int], move: Move) -> Iterator[Trajectory]:
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
    flow = run.first if index == 0 else None
    problem, ts = run.prepare(index) if flow is None else flow
    until, due = float(run.ts[-1]), run.outcomes[index].due
    blow_up = None if due is None else BlowUpTime(*map(jnp.asarray, due))
    if run.layout is None or run.shares_members:
        return followed(problem, ts, due=blow_up, until=until)
    return run.layout.followed(problem, ts, due=blow_up, until=until)


def _one_by_one(run: Run, indices: Sequence[int]) -> Trajectory:
    """The trajectories of some members, each as it is alone, without their starts."""
    rows = [_starting_at(None, _trajectory(run, i)) for i in indices]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)


def _starting_at(mu: AbstractMeasure | None, trajectory: Trajectory) -> Trajectory:
    is_none = lambda part: part is None
    return eqx.tree_at(lambda t: t.start, trajectory, mu, is_leaf=is_none)


def _in_batch(run: Run, indices: Sequence[int]) -> Trajectory:
    """The trajectories of some members, side by side."""
    measures, setup = stacked([run.members[i].measure for i in indices]), run.setup
    together = motion_of(measures).abreast(measures)
    law, axis = _law(run, indices)
    is_drawn = setup.steps.noise is not None and run.spec.starts is None
    return ensemble(
        law,
        measures,
        run.segment,
        in_axes=(axis, 0),
        together=min(together, len(run.members)),  # however few go on
        stepping=run.stepping,
        stop=setup.steps.stops,
        since=float(run.ts[0]),
        due=_blow_up_times([run.outcomes[i].due for i in indices]),
        until=float(run.ts[-1]),
        noise=setup.steps.noise,
        key=jnp.stack(list(map(setup.noise_key, indices))) if is_drawn else None,
        devices=() if run.layout is None else run.layout.own,
    )


def _law(run: Run, indices: Sequence[int]) -> tuple[AbstractDynamics, int | None]:
    """What moves members: one for all, whose axis is `None`, or a stack of theirs."""
    first, *others = (jax.tree.leaves(member.dynamics) for member in run.members)
    same = lambda leaves: all(map(np.array_equal, first, leaves))
    if all(map(same, others)):
        return run.members[0].dynamics, None
    return stacked([run.members[i].dynamics for i in indices]), 0


def _blow_up_times(dues: Sequence[tuple[float, float] | None]) -> BlowUpTime | None:
    pairs = [due for due in dues if due is not None]
    if len(pairs) < len(dues):
        return None
    return BlowUpTime(*map(jnp.asarray, zip(*pairs, strict=True)))
