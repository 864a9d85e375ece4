"""One segment of a run: integrates its members and evaluates its energies."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from meanfield import models
from meanfield.dynamics import AbstractDynamics, stack_trees
from meanfield.endings import Status
from meanfield.flows import BlowUpTime, Trajectory, ensemble, flow_problem, motion_of
from meanfield.measures import AbstractMeasure
from meanfield.runs.records._endings import Outcome
from meanfield.runs.records._energy_change import EnergyChange
from meanfield.runs.representations import (
    Arrays,
    constant_frames,
    frame_of,
    has_error_bound,
    representation_of,
    sums_of,
)
from meanfield.runs.setup._observe import observables
from meanfield.runs.setup._setup import Member

from ._run import Run

Move = Callable[[Run, Sequence[int]], Trajectory]


def advance(run: Run) -> Run:
    """The run after one more segment, with its frames and their energies.

    The spec fixes where segments begin and end, so a resumed run has the same segments.
    After an early end, the last frame is the final state.
    """
    run = forward_pass(run) if run.spec.forward else _flow_members(run)
    run = _observe(run) if run.frames and run.energies[0] else run
    if run.has_ended and run.origins:
        run = replace(run, outcomes=_estimate_errors(run))
    return run


def _estimate_errors(run: Run) -> tuple[Outcome, ...]:
    """The outcomes of all members, with error estimates of their final states."""
    members = zip(run.members, run.origins, run.outcomes, strict=True)
    return tuple(
        run.setup.estimate_errors(
            replace(member, measure=origin), member.measure, outcome, i
        )
        for i, (member, origin, outcome) in enumerate(members)
    )


def _observe(run: Run) -> Run:
    """The run with the energies and their rates added to its frames."""
    length = min(run.setup.steps.segment, run.last_index) + 1
    pairs = zip(run.members, run.energies, strict=True)
    if run.spec.is_family:
        parts = []
        for i, pair in enumerate(pairs):
            frames = {n: a if n == "time" else a[i] for n, a in run.frames.items()}
            parts.append(observables(*pair, frames, length))
        values = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    else:
        values = observables(*next(pairs), run.frames, length)
    if run.observables:
        values = {name: values[name] for name in run.observables}
    return replace(
        run,
        frames={**run.frames, **values},
        observables={name: array[..., -1] for name, array in values.items()},
        energy_change=_energy_change(run, values),
    )


def _energy_change(run: Run, values: Mapping[str, np.ndarray]) -> EnergyChange | None:
    """The change of the energy along a gradient flow, updated with these frames."""
    if run.spec.flow_of is None or "energy" not in values:
        return run.energy_change
    if run.energy_change is None:
        return EnergyChange.from_values(values["energy"])
    return run.energy_change.add_frames(values["energy"])


def forward_pass(run: Run) -> Run:
    """The run of a network's own forward pass: the embedding and each layer's states.

    These states form one segment and are always computed in double precision.

    Raises:
        InputFileError: if a file is missing or damaged, or the network's config names
            an unknown activation.
    """
    spec = run.spec
    checkpoint, text = models.load(str(spec.model)), models.resolve_text(str(spec.text))
    states, _ = models.hidden_states(checkpoint, text)
    x = states.astype(run.setup.dtype)
    last = run.setup.restore({"x": x[-1]}, run.static)
    outcome, end = run.outcomes[0], float(run.ts[-1])
    return replace(
        run,
        members=(Member(run.members[0].dynamics, last),),
        outcomes=(replace(outcome, status=Status.FINISHED, time=end),),
        frame_index=run.last_index,
        first_flow=None,
        sums="none",
        frames={"time": run.ts, "x": x},
    )


def _flow_members(run: Run) -> Run:
    """The run after one more segment; members that have ended do not move."""
    stop = min(run.frame_index + run.setup.steps.segment, run.last_index)
    length, count = len(run.segment), stop - run.frame_index
    pieces = [constant_frames(member.measure, length) for member in run.members]
    members, outcomes, sums = list(run.members), list(run.outcomes), run.sums
    indices = [i for i, outcome in enumerate(outcomes) if outcome.is_running]
    for i, trajectory in zip(indices, _trajectories(run, indices), strict=True):
        mu, dynamics = members[i].measure, members[i].dynamics
        outcomes[i] = outcomes[i].add_segment(
            trajectory,
            float(run.ts[-1]),
            is_bound=has_error_bound(trajectory.start, dynamics),
        )
        sums = sums_of(trajectory.start, dynamics) if i == 0 else sums
        pieces[i], end = _end_of_segment(mu, trajectory, count, outcomes[i])
        members[i] = Member(dynamics, end)
    parts = {"members": tuple(members), "outcomes": tuple(outcomes)}
    next_run = replace(run, **parts, sums=sums, frame_index=stop, first_flow=None)
    return replace(next_run, frames=_frames(run, next_run, pieces))


def _frames(previous_run: Run, run: Run, pieces: Sequence[Arrays]) -> Arrays:
    """The frames of a segment, except the first if it is already stored."""
    first, is_stored = previous_run.frame_index, previous_run.frame_index > 0
    keep = slice(1 if is_stored else 0, run.frame_index - first + 1)
    times = run.ts[first : run.frame_index + 1][keep]
    if run.spec.is_family:
        stacks = {n: np.stack([p[n][keep] for p in pieces]) for n in pieces[0]}
        return {"time": times, **stacks}
    frames = {"time": times, **{name: a[keep] for name, a in pieces[0].items()}}
    if run.outcomes[0].is_running:
        return frames
    begin = float(run.ts[first]) if is_stored else -math.inf
    return _append_end(run, frames, begin)


def _append_end(run: Run, frames: Arrays, begin: float) -> Arrays:
    """The frames before the end of a flow, followed by its final state.

    Empty if the flow ended at the segment's start, since that frame is stored.
    """
    end = frames["time"].dtype.type(run.outcomes[0].time)
    if end <= begin:
        return {}
    mask = frames["time"] < end
    last = {"time": np.asarray(end), **frame_of(run.members[0].measure)}
    return {
        name: np.concatenate([array[mask], last[name][None]])
        for name, array in frames.items()
    }


def _end_of_segment(
    mu: AbstractMeasure, trajectory: Trajectory, count: int, outcome: Outcome
) -> tuple[Arrays, AbstractMeasure]:
    """The frames of a member, and its measure at the end of the segment."""
    representation = representation_of(mu)
    frames = representation.frames(mu, trajectory.coordinates)
    # The next segment starts from the stored frame, without the plans for interpolated
    # sums that this flow has made. A resumed run then agrees bit for bit.
    final = {name: array[count] for name, array in frames.items()}
    end = (
        representation.coordinates(mu, final) if outcome.is_running else trajectory.last
    )
    return frames, motion_of(mu).discard_plan(mu).replace_coordinates(end)


def _trajectories(run: Run, indices: Sequence[int]) -> Iterable[Trajectory]:
    """The trajectories of some members through the segment, from all processes."""
    if run.is_batched:
        return _distribute(run, indices, _batched_trajectories)
    if run.layout is None or not run.shares_members:
        return (jax.block_until_ready(_trajectory(run, index)) for index in indices)
    rows = _distribute(run, indices, _separate_trajectories)
    # Processes do not exchange starts, which may hold plans for interpolated sums.
    pairs = zip(rows, indices, strict=True)
    return (_replace_start(run.members[i].measure, row) for row, i in pairs)


def _distribute(run: Run, indices: Sequence[int], move: Move) -> Iterator[Trajectory]:
    """The trajectories of some members; each process integrates its share."""
    if run.layout is None:
        trajectories = move(run, indices)
    else:
        share = run.layout.share(indices)
        trajectories = run.layout.gather_trajectories(move(run, share))
    host = jax.tree.map(np.asarray, trajectories)
    for row in range(len(indices)):
        yield jax.tree.map(lambda array, row=row: jnp.asarray(array[row]), host)


def _trajectory(run: Run, index: int) -> Trajectory:
    """The trajectory of one member through the segment."""
    flow = run.first_flow if index == 0 else None
    problem, ts = run.prepare(index) if flow is None else flow
    end, prediction = float(run.ts[-1]), run.outcomes[index].predicted_blow_up
    blow_up = None if prediction is None else BlowUpTime(*map(jnp.asarray, prediction))
    if run.layout is None or run.shares_members:
        return flow_problem(problem, ts, predicted_blow_up=blow_up, run_end=end)
    return run.layout.flow_problem(problem, ts, predicted_blow_up=blow_up, run_end=end)


def _separate_trajectories(run: Run, indices: Sequence[int]) -> Trajectory:
    """Integrates some members one by one; the result omits their initial measures."""
    rows = [_replace_start(None, _trajectory(run, i)) for i in indices]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)


def _replace_start(mu: AbstractMeasure | None, trajectory: Trajectory) -> Trajectory:
    is_none = lambda part: part is None
    return eqx.tree_at(lambda t: t.start, trajectory, mu, is_leaf=is_none)


def _batched_trajectories(run: Run, indices: Sequence[int]) -> Trajectory:
    """The trajectories of some members, integrated in one batch."""
    measures, setup = stack_trees([run.members[i].measure for i in indices]), run.setup
    batch_size = motion_of(measures).batch_size(measures)
    dynamics, axis = _batched_dynamics(run, indices)
    is_drawn = setup.steps.noise is not None and run.spec.starts is None
    return ensemble(
        dynamics,
        measures,
        run.segment,
        in_axes=(axis, 0),
        batch_size=min(batch_size, len(run.members)),  # counts ended members, too
        stepping=run.stepping,
        stop=setup.steps.stops,
        run_start=float(run.ts[0]),
        predicted_blow_up=_blow_up_times(
            [run.outcomes[i].predicted_blow_up for i in indices]
        ),
        run_end=float(run.ts[-1]),
        noise=setup.steps.noise,
        key=jnp.stack(list(map(setup.noise_key, indices))) if is_drawn else None,
        devices=() if run.layout is None else run.layout.local_devices,
    )


def _batched_dynamics(
    run: Run, indices: Sequence[int]
) -> tuple[AbstractDynamics, int | None]:
    """The dynamics of a batch, and their batch axis; `None` if members share them."""
    first, *rest = (jax.tree.leaves(member.dynamics) for member in run.members)
    is_equal = lambda leaves: all(map(np.array_equal, first, leaves))
    if all(map(is_equal, rest)):
        return run.members[0].dynamics, None
    return stack_trees([run.members[i].dynamics for i in indices]), 0


def _blow_up_times(
    predictions: Sequence[tuple[float, float] | None],
) -> BlowUpTime | None:
    pairs = [prediction for prediction in predictions if prediction is not None]
    if len(pairs) < len(predictions):
        return None
    return BlowUpTime(*map(jnp.asarray, zip(*pairs, strict=True)))
