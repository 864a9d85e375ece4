"""What a way to interpolate sums has to know so that flows can use it."""

import abc
from collections.abc import Callable
from typing import Generic, TypeVar

import jax.numpy as jnp
from jaxtyping import Array

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import AbstractPlanned, Points

H = TypeVar("H", bound=AbstractPlanned)

SEEN = 2  # An error may be twice what is seen of it: the worst of 6 000 was 1.6 times.


class Planner(abc.ABC, Generic[H]):
    """How sums of one kind are planned, given room, and watched."""

    @abc.abstractmethod
    def may(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """Whether a plan may be worth it for a field, by its shapes alone."""

    @abc.abstractmethod
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> H | None:
        """How sums hold the field to the tolerance; `None` if that is not worth it."""

    @abc.abstractmethod
    def roomier(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> H | None:
        """A plan with more room, after one was lost; `None` if exact sums cost less."""

    @abc.abstractmethod
    def missed(
        self,
        how: H,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence:
        """What the field of planned tokens misses, over the largest velocity."""


def over_largest(error: Array, velocities: Array, tolerance: float) -> Convergence:
    """An error of velocities over the largest of them."""
    scale = jnp.max(jnp.abs(velocities))
    relative = jnp.where(scale > 0, error / scale, error)
    return Convergence(relative, jnp.asarray(tolerance, error.dtype))
