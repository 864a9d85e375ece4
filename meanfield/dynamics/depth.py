"""Dynamics whose parameters change with depth, that is, with time."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array, is_concrete, member_of, require
from meanfield._typing import Numbers, Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure

from ._dynamics import AbstractDynamics


class AbstractChanging(AbstractDynamics):
    """Dynamics that change with time: at each time they are those of a `member`."""

    @abc.abstractmethod
    def member(self, t: Time) -> AbstractDynamics:
        """The dynamics at time `t`."""

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return self.member(t).field(t, mu)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        return self.member(t).is_linearly_bounded(t, mu)


class Layers(AbstractChanging):
    """Sequence of layers; layer `l` acts on the interval `[times[l], times[l + 1])`.

    The first layer also acts before `times[0]`, and the last one after `times[-1]`.

    Attributes:
        times: the times at which layers begin and end, increasing; one more than there
            are layers.
        stack: all layers as one dynamics, whose arrays have a leading axis of layers;
            see `stack_trees`.

    Examples:
        >>> from meanfield import Drift, Gaussian, Layers, flow
        >>> from meanfield.dynamics import stack_trees
        >>> layers = Layers(
        ...     [0.0, 1.0, 2.0], stack_trees([Drift(jnp.eye(1)), Drift(-jnp.eye(1))])
        ... )
        >>> run = flow(layers, Gaussian(jnp.ones(1), jnp.eye(1)), [0.0, 1.0, 2.0])
        >>> print(run.map(lambda mu: mu.mean).ravel())  # 1, e and 1
        [1.     2.7183 1.    ]
    """

    times: Float[Array, " edges"]
    stack: AbstractDynamics

    def __init__(self, times: Numbers, stack: AbstractDynamics) -> None:
        self.times = _increasing(times)
        self.stack = stack
        _check_length(stack, self.times.shape[0] - 1, "layers, one for each interval")

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.times[1:-1]

    @override
    def member(self, t: Time) -> AbstractDynamics:
        """The layer that acts at time `t`."""
        index = jnp.searchsorted(self.times[1:-1], t, side="right")
        return member_of(self.stack, index)


class Interpolated(AbstractChanging):
    """Dynamics whose parameters are interpolated linearly in time between nodes.

    Before the first node and after the last one, parameters are constant.

    Attributes:
        times: times of the nodes, increasing; one for each member of the stack.
        stack: the dynamics at all nodes as one, whose arrays have a leading axis of
            nodes; see `stack_trees`.

    Examples:
        >>> from meanfield import Drift, Interpolated
        >>> from meanfield.dynamics import stack_trees
        >>> change = Interpolated(
        ...     [0.0, 1.0], stack_trees([Drift(jnp.eye(1)), Drift(-jnp.eye(1))])
        ... )
        >>> print(change.member(0.25).matrix)
        [[0.5]]
    """

    times: Float[Array, " nodes"]
    stack: AbstractDynamics

    def __init__(self, times: Numbers, stack: AbstractDynamics) -> None:
        self.times = _increasing(times)
        self.stack = stack
        _check_length(stack, self.times.shape[0], "members, one for each node")

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return self.times  # parameters have kinks at nodes, so steps should end there

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """Whether a bound is proven for the parameters at `t` and for zero parameters.

        The condition on zero parameters excludes bounds that need an injective $K$,
        since their constants diverge near a time at which $K$ is singular.
        """
        member = self.member(t)
        zero = lambda leaf: jnp.zeros_like(leaf) if eqx.is_inexact_array(leaf) else leaf
        degenerate = jax.tree.map(zero, member)
        claims = (law.is_linearly_bounded(t, mu) for law in (member, degenerate))
        return jnp.all(jnp.stack(list(claims)))

    @override
    def member(self, t: Time) -> AbstractDynamics:
        """The dynamics with the parameters that are interpolated at time `t`."""
        last = self.times.shape[0] - 2
        left = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, last)
        span = self.times[left + 1] - self.times[left]
        weight = jnp.clip((t - self.times[left]) / span, 0, 1)
        start, end = member_of(self.stack, left), member_of(self.stack, left + 1)
        blend = lambda a, b: a + weight * (b - a) if eqx.is_inexact_array(a) else a
        return jax.tree.map(blend, start, end)


def _increasing(times: Numbers) -> Float[Array, " k"]:
    array = float_array("times", times)
    if array.ndim != 1 or array.shape[0] < 2:
        raise InvalidInputError(
            f"`times` must hold at least two numbers; got shape {array.shape}."
        )
    if is_concrete(array) and not np.all(np.diff(np.asarray(array)) > 0):
        raise InvalidInputError("`times` must be strictly increasing.")
    return array


def _check_length(stack: AbstractDynamics, length: int, description: str) -> None:
    require("`stack` must be stacked by `stack_trees`", stack, AbstractDynamics)
    lengths = {
        leaf.shape[:1] for leaf in jax.tree.leaves(eqx.filter(stack, eqx.is_array))
    }
    if lengths != {(length,)}:
        sizes = sorted(size[0] if size else 0 for size in lengths)
        raise InvalidInputError(
            f"`stack` must hold {length} {description} of `times`; got arrays with "
            f"leading axes of length {sizes}."
        )
