"""Many flows in one call, each with its own steps and its own ending."""

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from meanfield._array import float_array
from meanfield._typing import Device, Numbers
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, as_batched
from meanfield.workers import threads

from ._compilation import compile_function
from ._flow import Stop, flow_problem, prepare_problem
from ._integration import Problem, integrate_in_jit
from ._trajectory import M, Trajectory
from .motions import Noise, motion_of
from .stepping import AbstractOnHost, AbstractStepping
from .watch import (
    BlowUpTime,
    is_bounded,
    needs_pilot,
    no_blow_up,
    pilot_blow_up,
    pilot_span,
    pilot_stepping,
)

Axes = tuple[int | None, ...]
Keys = Key[Array, "..."]
Members = tuple[AbstractDynamics, AbstractMeasure, Noise, Keys | None, BlowUpTime]


def ensemble(  # noqa: PLR0913 (as `flow`)
    dynamics: AbstractDynamics,
    mu0: M,
    ts: Numbers,
    *,
    in_axes: Axes = (None, 0),
    batch_size: int | None = None,
    stepping: AbstractStepping | None = None,
    stop: Stop = None,
    run_start: float | None = None,
    predicted_blow_up: BlowUpTime | None = None,
    run_end: float | None = None,
    noise: Noise = None,
    key: Keys | None = None,
    devices: Sequence[Device] = (),
) -> Trajectory[M]:
    """Integrates many flows with one compilation, each as `flow` would.

    Members are integrated in blocks, and as many blocks run in parallel as there are
    cores. Each member has its own step sizes and its own ending; a block ends when its
    last member has ended. Blocks of the same shape share one compiled program, also
    across calls; the last block is padded. SciPy's steps (arclength) integrate one
    member after another; NaN fills up `merges`. Call `ensemble` outside `jit`. In a
    block, members with an undefined field (as of ReLU) end as `not-finite`.

    Args:
        dynamics: one dynamics for all members, or a stack; see `dynamics.stack_trees`.
        mu0: the stacked initial measures; axis 0 of every array is the axis of members.
        ts: non-decreasing times of the frames, the same for all members.
        in_axes: one entry for `dynamics` and one for `mu0`, as in `jax.vmap`: 0 if axis
            0 of the arrays is the axis of members, `None` if members share the arrays.
        batch_size: number of members in a block. The default is 64 for Gaussians (more
            in low dimensions) and 1 for grids and large clouds of tokens. For small
            clouds it is the number whose sums fit into 1 MB on a CPU, or more on a GPU.
        stepping: as in `flow`.
        stop: as in `flow`.
        run_start: as in `flow`.
        predicted_blow_up: as in `flow`, with a leading axis of members.
        run_end: as in `flow`.
        noise: as in `flow`; `kappa` may have a leading axis of members.
        key: PRNG key of the noise, or a stack of keys, one for each member.
        devices: devices of this process, which take the blocks in turn; JAX's default
            device if empty.

    Returns:
        A trajectory whose arrays have a leading axis of members.

    Raises:
        InvalidInputError: if no array has an axis of members, or their lengths differ.
        NotClosedError: if the attention does not map Gaussians to Gaussians, and `mu0`
            holds Gaussians.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.dynamics import stack_trees
        >>> from meanfield.flows import ensemble
        >>> one = jnp.eye(1)
        >>> starts = stack_trees(
        ...     [Gaussian(jnp.zeros(1), jnp.sqrt(v) * one) for v in (1.0, 2.0)]
        ... )
        >>> runs = ensemble(attentions["softmax"](one, one, one), starts, [0.0, 10.0])
        >>> print(runs.t_star)  # 1/(2Σ₀)
        [0.5  0.25]
    """
    times = float_array("ts", ts)
    mu0 = cast(M, motion_of(mu0).prepare(mu0, noise, times))
    members: Members = (dynamics, mu0, noise, key, no_blow_up(times.dtype))
    axes = (*in_axes, _member_axis(noise and noise.kappa), _member_axis(key), None)
    family = _family(
        members, axes, times, stepping=stepping, stop=stop, run_start=run_start
    )
    family = family._replace(devices=tuple(devices) or (None,))
    if needs_pilot(family.problem.stepping, mu0, noise):
        if predicted_blow_up is None:
            span = pilot_span(times, run_end).astype(family.ts.dtype)
            predicted_blow_up = family.predict_blow_up(span, batch_size)
        family = family.add_prediction(predicted_blow_up)
    return family.trajectories(batch_size)


class _Family(NamedTuple):
    """The flows of all members, ready to be integrated.

    Attributes:
        problem: the problem of the first member.
        members: the stacked parts of the problem in which members may differ.
        axes: for each part, 0 if its arrays have a leading axis of members, or `None`.
        ts: times of the frames.
        size: number of members.
        devices: devices that take the blocks in turn; `None` is JAX's default device.
    """

    problem: Problem
    members: Members
    axes: Axes
    ts: Float[Array, " times"]
    size: int
    devices: tuple[Device | None, ...] = (None,)

    def trajectories(self, batch_size: int | None) -> Trajectory:
        """The trajectories of all members, integrated in blocks on all cores."""
        mu0s, n = self.members[1], self.size
        size = batch_size or min(n, motion_of(mu0s).batch_size(mu0s))
        # Copies of the last member fill the last block: one shape needs one program.
        order = np.minimum(np.arange(-(-n // size) * size), n - 1)
        order = order.reshape(-1, size)
        first = _select_members(self.members, self.axes, order[0])
        ready = _block.has_program(self.problem, first, self.axes, self.ts)
        n_serial = 0 if ready else 1
        turns = [self.devices[k % len(self.devices)] for k in range(len(order))]
        begin, end = slice(n_serial), slice(n_serial, None)
        # LAPACK calls of implicit solvers for two blocks at once could deadlock.
        solver = self.problem.stepping.solver
        is_implicit = isinstance(solver, diffrax.AbstractImplicitSolver)
        with threads(1 if is_implicit else None) as cores:
            # The first block runs alone if it has to compile the program.
            serial_blocks = list(map(self.block, order[begin], turns[begin]))
            blocks = [*serial_blocks, *cores.map(self.block, order[end], turns[end])]
        join = lambda *leaves: jnp.asarray(np.concatenate(leaves)[:n])
        return jax.tree.map(join, *blocks)

    def add_prediction(self, blow_up: BlowUpTime) -> "_Family":
        """The flows, each with its predicted blow-up time."""
        blow_up = jax.tree.map(
            lambda part: jnp.asarray(part, self.ts.dtype), blow_up.inf_form
        )
        members = cast(Members, (*self.members[:-1], blow_up))
        axes = *self.axes[:-1], _member_axis(blow_up.t_star)
        return self._replace(members=members, axes=axes)

    def predict_blow_up(
        self, span: Float[Array, " times"], batch_size: int | None
    ) -> BlowUpTime:
        """Blow-up times of the exact flows, from adaptive pilot integrations."""
        dynamics, mu0s, *_ = self.members
        axes = tuple(None if a is None else eqx.if_array(a) for a in self.axes[:2])
        bounds = lambda law, mu: is_bounded(law, mu, span)
        is_proven = eqx.filter_vmap(bounds, in_axes=axes)(dynamics, mu0s)
        if bool(jnp.all(is_proven)):
            never_all = lambda part: jnp.broadcast_to(part, is_proven.shape)
            return jax.tree.map(never_all, no_blow_up(span.dtype))
        first = self.problem.dynamics, self.problem.mu0
        pilot = replace(self.problem, stepping=pilot_stepping(*first), stops=())
        ends = self._replace(problem=pilot, ts=span).trajectories(batch_size)
        return pilot_blow_up(*first, ends.blow_up)

    def block(self, indices: np.ndarray, device: Device | None) -> Trajectory:
        """The trajectories of some members, integrated in one batch."""
        with nullcontext() if device is None else jax.default_device(device):
            members = _select_members(self.members, self.axes, indices)
            if isinstance(self.problem.stepping, AbstractOnHost):
                return _integrate_in_turn(self.problem, members, self.axes, self.ts)
            trajectory = _block(self.problem, members, self.axes, self.ts)
        return jax.block_until_ready(trajectory)


def _family(
    members: Members,
    axes: Axes,
    ts: Numbers,
    *,
    stepping: AbstractStepping | None,
    stop: Stop,
    run_start: float | None,
) -> _Family:
    """All flows, which share the step schedule and the plan of the first member."""
    size = _n_members(members, axes)
    dynamics, mu0, noise, key, _ = _select_members(members, axes, np.asarray(0))
    problem, times = prepare_problem(
        dynamics,
        mu0,
        ts,
        stepping=stepping,
        stop=stop,
        run_start=run_start,
        noise=noise,
        key=key,
    )
    stacked_dynamics, mu0s, *rest = members
    mu0s = motion_of(mu0).share_plan(mu0s, problem.mu0)
    planned_members = cast(Members, (stacked_dynamics, mu0s, *rest))
    return _Family(problem, planned_members, axes, times, size)


@functools.partial(compile_function, level=lambda *_: None)  # members take long
def _block(
    problem: Problem, members: Members, in_axes: Axes, ts: Float[Array, " times"]
) -> Trajectory:
    """Integrates a batch of `members`; everything else is as in `problem`."""
    adjoint = diffrax.RecursiveCheckpointAdjoint()

    def integrate_member(*member_parts: Any) -> Trajectory:
        parts = lambda p: (p.dynamics, p.mu0, p.noise, p.key, p.predicted_blow_up)
        member_problem = eqx.tree_at(
            parts, problem, member_parts, is_leaf=lambda x: x is None
        )
        return integrate_in_jit(member_problem, ts, adjoint)

    # A single member needs no `vmap`, which would run both branches of a `cond`.
    if _n_members(members, in_axes) == 1:
        member = _map_members(members, in_axes, lambda leaf: leaf[0])
        return jax.tree.map(lambda leaf: leaf[None], integrate_member(*member))

    def integrate_batched(
        law: AbstractDynamics, mu0: AbstractMeasure, *rest: Any
    ) -> Trajectory:
        trajectory = integrate_member(law, as_batched(mu0), *rest)
        return eqx.tree_at(lambda run: run.start, trajectory, mu0)

    axes = tuple(None if axis is None else eqx.if_array(axis) for axis in in_axes)
    return eqx.filter_vmap(integrate_batched, in_axes=axes)(*members)


def _integrate_in_turn(
    problem: Problem, members: Members, in_axes: Axes, ts: Float[Array, " times"]
) -> Trajectory:
    """Integrates `members` one after the other, by steps that SciPy takes."""
    from .on_host._trajectory import fill_merges

    indices = range(_n_members(members, in_axes))
    pairs = [_select_members(members, in_axes, np.asarray(k))[:2] for k in indices]
    problems = [eqx.tree_at(lambda p: (p.dynamics, p.mu0), problem, q) for q in pairs]
    flows = [fill_merges(flow_problem(part, ts)) for part in problems]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *flows)


def _select_members(trees: Members, in_axes: Axes, index: np.ndarray) -> Members:
    """The members at `index` in the stacked trees; shared trees are unchanged."""

    # Unlike JAX, NumPy needs no compiled program to select members.
    def take(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf[index]  # NumPy cannot hold PRNG keys
        return jnp.asarray(np.asarray(leaf)[index])

    return _map_members(trees, in_axes, take)


def _map_members(
    trees: Members, in_axes: Axes, pick: Callable[[Array], Array]
) -> Members:
    """Applies `pick` to the arrays of stacked trees; shared trees are unchanged."""
    map_leaf = lambda leaf: pick(leaf) if eqx.is_array(leaf) else leaf
    parts = (
        tree if axis is None else jax.tree.map(map_leaf, tree)
        for tree, axis in zip(trees, in_axes, strict=True)
    )
    return cast(Members, tuple(parts))


def _member_axis(stack: Array | None) -> int | None:
    """Zero if the array has an axis of members, and `None` otherwise."""
    return 0 if stack is not None and stack.ndim else None


def _n_members(trees: tuple[PyTree, ...], in_axes: Axes) -> int:
    lengths = {
        leaf.shape[0] if leaf.ndim else 0
        for tree, axis in zip(trees, in_axes, strict=True)
        if axis is not None
        for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    }
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidInputError(
            "All arrays of `mu0` and `dynamics` that `in_axes` maps must have the same "
            f"leading axis of members; the lengths of this axis are {sorted(lengths)}."
        )
    return lengths.pop()
