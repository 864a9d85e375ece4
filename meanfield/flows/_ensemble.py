"""Many flows in one call, each with its own steps and its own ending."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from meanfield._array import float_array
from meanfield._typing import Device, Numbers
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, beside
from meanfield.workers import threads

from ._compiled import compiled
from ._flow import Stop, prepared
from ._integration import Problem, integrated
from ._trajectory import M, Trajectory
from .motions import Noise, motion_of
from .stepping import AbstractStepping
from .watch import BlowUpTime, forerunner, foresees, foretold, is_bounded, never

Axes = tuple[int | None, ...]
Keys = Key[Array, "..."]
Members = tuple[AbstractDynamics, AbstractMeasure, Noise, Keys | None, BlowUpTime]


def ensemble(  # noqa: PLR0913 (as `flow`)
    dynamics: AbstractDynamics,
    mu0: M,
    ts: Numbers,
    *,
    in_axes: Axes = (None, 0),
    together: int | None = None,
    stepping: AbstractStepping | None = None,
    stop: Stop = None,
    since: float | None = None,
    due: BlowUpTime | None = None,
    until: float | None = None,
    noise: Noise = None,
    key: Keys | None = None,
    devices: Sequence[Device] = (),
) -> Trajectory[M]:
    """The flows of many members, compiled once: each as `flow` would give it.

    Members advance in blocks, as many at a time as there are cores. Inside a block
    each member has its own step sizes and its own ending, and waits for the slowest of
    the block; a block ends when all its members have. Blocks of one shape share one
    compilation, over calls too; the last is filled up. For use outside `jit`, where
    a field can refuse numbers: here a member that has none (ReLU at a mean other than
    zero) ends as `not-finite`.

    Args:
        dynamics: one for all, or a stack of them; see `dynamics.stacked`.
        mu0: the initial measures, stacked: every array leads with the axis of members.
        ts: times of the frames, not decreasing, the same for all members.
        in_axes: as in `jax.vmap`, 0 or `None` for `dynamics` and for `mu0`: whether
            their arrays lead with the axis of members.
        together: members in a block; by default 64 Gaussians, or more of few
            dimensions, as many clouds of tokens as hold no more numbers than a block
            of the sums over a large one, and one such large cloud.
        stepping: as in `flow`, as are `stop`, `since` and `until`.
        stop: what ends a flow early.
        since: when the run began.
        due: as in `flow`, and leads with the axis of members.
        until: where the run ends.
        noise: as in `flow`; its `kappa` may lead with the axis of members.
        key: of the noise; a stack of keys, one for each member, if each has its own.
        devices: of this process, by which blocks are computed in turn; JAX's first if
            there are none.

    Returns:
        A trajectory whose arrays lead with the axis of members.

    Raises:
        InvalidInputError: if neither leads with an axis of members, or lengths differ.
        NotClosedError: if a Gaussian meets an attention that does not keep it one.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.dynamics import stacked
        >>> from meanfield.flows import ensemble
        >>> one = jnp.eye(1)
        >>> starts = stacked(
        ...     [Gaussian(jnp.zeros(1), jnp.sqrt(v) * one) for v in (1.0, 2.0)]
        ... )
        >>> runs = ensemble(attentions["softmax"](one, one, one), starts, [0.0, 10.0])
        >>> print(runs.t_star)  # 1/(2Σ₀)
        [0.5  0.25]
    """
    given = float_array("ts", ts)
    mu0 = cast(M, motion_of(mu0).ready(mu0, noise, given))
    members: Members = (dynamics, mu0, noise, key, never(given.dtype))
    axes = (*in_axes, _leads(noise and noise.kappa), _leads(key), None)
    family = _family(members, axes, given, stepping=stepping, stop=stop, since=since)
    family = family._replace(devices=tuple(devices) or (None,))
    if foresees(family.problem.stepping, mu0, noise):
        if due is None:
            end = given[-1] if until is None else until
            span = jnp.stack([given[0], jnp.asarray(end, given.dtype)])
            due = family.dues(span.astype(family.ts.dtype), together)
        family = family.told(due)
    return family.trajectories(together)


def status_counts(codes: Int[Array, " runs"]) -> dict[str, int]:
    """How many members of an ensemble ended in each way.

    Examples:
        >>> from meanfield.flows import status_counts
        >>> status_counts(jnp.array([0, 2, 2]))
        {'finished': 1, 'blow-up': 2}
    """
    found, counts = np.unique(np.asarray(codes), return_counts=True)
    return {Status(int(c)).ending: int(k) for c, k in zip(found, counts, strict=True)}


class _Family(NamedTuple):
    """The flows of all members, ready to be integrated.

    Attributes:
        problem: that of the first member.
        members: what is different in the others, and along which axis.
        ts: times of the frames.
        size: how many there are.
        devices: that compute blocks in turn; `None` is the default of who calls.
    """

    problem: Problem
    members: Members
    axes: Axes
    ts: Float[Array, " times"]
    size: int
    devices: tuple[Device | None, ...] = (None,)

    def trajectories(self, together: int | None) -> Trajectory:
        """The trajectories of all members, block by block on all cores."""
        mu0s, n = self.members[1], self.size
        abreast = together or min(n, motion_of(mu0s).abreast(mu0s))
        # The last member fills the last block: blocks of one shape share one
        # compilation.
        order = np.minimum(np.arange(-(-n // abreast) * abreast), n - 1)
        order = order.reshape(-1, abreast)
        first = _taken(self.members, self.axes, order[0])
        ready = _block.has_program(self.problem, first, self.axes, self.ts)
        n_alone = 0 if ready else 1
        turns = [self.devices[k % len(self.devices)] for k in range(len(order))]
        with threads() as cores:
            blocks = _first_alone(self.block, order, turns, n_alone, cores)
        join = lambda *leaves: jnp.asarray(np.concatenate(leaves)[:n])
        return jax.tree.map(join, *blocks)

    def told(self, due: BlowUpTime) -> "_Family":
        """The same flows, told when each of them is infinite."""
        due = jax.tree.map(lambda part: jnp.asarray(part, self.ts.dtype), due.or_never)
        members = cast(Members, (*self.members[:-1], due))
        return self._replace(
            members=members, axes=(*self.axes[:-1], _leads(due.t_star))
        )

    def dues(self, span: Float[Array, " times"], together: int | None) -> BlowUpTime:
        """When the exact flows blow up, as steps go before fixed ones to see."""
        dynamics, mu0s, *_ = self.members
        axes = tuple(None if a is None else eqx.if_array(a) for a in self.axes[:2])
        claim = lambda law, mu: is_bounded(law, mu, span)
        proven = eqx.filter_vmap(claim, in_axes=axes)(dynamics, mu0s)
        if bool(jnp.all(proven)):
            never_all = lambda part: jnp.broadcast_to(part, proven.shape)
            return jax.tree.map(never_all, never(span.dtype))
        first = self.problem.dynamics, self.problem.mu0
        ahead = replace(self.problem, stepping=forerunner(*first), stops=())
        ends = self._replace(problem=ahead, ts=span).trajectories(together)
        return foretold(*first, ends.blow_up)

    def block(self, indices: np.ndarray, device: Device | None) -> Trajectory:
        """The trajectories of some members, side by side."""
        with nullcontext() if device is None else jax.default_device(device):
            members = _taken(self.members, self.axes, indices)
            moved = _block(self.problem, members, self.axes, self.ts)
        return jax.block_until_ready(moved)


def _family(
    members: Members,
    axes: Axes,
    ts: Numbers,
    *,
    stepping: AbstractStepping | None,
    stop: Stop,
    since: float | None,
) -> _Family:
    """All flows, made ready as the first of them asks for."""
    size = _members(members, axes)
    dynamics, mu0, noise, key, _ = _taken(members, axes, np.asarray(0))
    problem, times = prepared(
        dynamics,
        mu0,
        ts,
        stepping=stepping,
        stop=stop,
        since=since,
        noise=noise,
        key=key,
    )
    moves, mu0s, *others = members
    mu0s = motion_of(mu0).alike(mu0s, problem.mu0)
    alike = cast(Members, (moves, mu0s, *others))
    return _Family(problem, alike, axes, times, size)


def _first_alone(
    block: Callable[[np.ndarray, Device], Trajectory],
    order: np.ndarray,
    devices: Sequence[Device],
    n_alone: int,
    cores: ThreadPoolExecutor,
) -> list[Trajectory]:
    """All blocks, on all cores but for the first ones: a program is compiled once."""
    begin, end = slice(n_alone), slice(n_alone, None)
    alone = list(map(block, order[begin], devices[begin]))
    return [*alone, *cores.map(block, order[end], devices[end])]


@compiled
def _block(
    problem: Problem,
    members: Members,
    in_axes: Axes,
    ts: Float[Array, " times"],
) -> Trajectory:
    """The flows of `members`, side by side; all else is as in `problem`."""
    adjoint = diffrax.RecursiveCheckpointAdjoint()

    def one(*own_parts: Any) -> Trajectory:
        parts = lambda p: (p.dynamics, p.mu0, p.noise, p.key, p.due)
        own = eqx.tree_at(parts, problem, own_parts, is_leaf=lambda x: x is None)
        return integrated(own, ts, adjoint)

    if _members(members, in_axes) == 1:  # side by side both sides of a `cond` run
        alone = _picked(members, in_axes, lambda leaf: leaf[0])
        return jax.tree.map(lambda leaf: leaf[None], one(*alone))

    def among(law: AbstractDynamics, mu0: AbstractMeasure, *others: Any) -> Trajectory:
        trajectory = one(law, beside(mu0), *others)
        return eqx.tree_at(lambda flowed: flowed.start, trajectory, mu0)

    axes = tuple(None if axis is None else eqx.if_array(axis) for axis in in_axes)
    return eqx.filter_vmap(among, in_axes=axes)(*members)


def _taken(trees: Members, in_axes: Axes, index: np.ndarray) -> Members:
    """Members of stacks, or what all share."""

    def take(leaf: Array) -> Array:  # JAX would compile a gather for each number
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf[index]  # keys have no numbers to be read on the host
        return jnp.asarray(np.asarray(leaf)[index])

    return _picked(trees, in_axes, take)


def _picked(trees: Members, in_axes: Axes, pick: Callable[[Array], Array]) -> Members:
    """What `pick` takes of the arrays of stacks, or what all members share."""
    own = lambda leaf: pick(leaf) if eqx.is_array(leaf) else leaf
    parts = (
        tree if axis is None else jax.tree.map(own, tree)
        for tree, axis in zip(trees, in_axes, strict=True)
    )
    return cast(Members, tuple(parts))


def _leads(stack: Array | None) -> int | None:
    """The axis of members of an array that may have one."""
    return 0 if stack is not None and stack.ndim else None


def _members(trees: tuple[PyTree, ...], in_axes: Axes) -> int:
    lengths = {
        leaf.shape[0] if leaf.ndim else 0
        for tree, axis in zip(trees, in_axes, strict=True)
        if axis is not None
        for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    }
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidInputError(
            "The arrays of `mu0`, and of `dynamics` if `in_axes` says so, must lead "
            f"with the same axis of members; their first sizes are {sorted(lengths)}."
        )
    return lengths.pop()
