"""The interface of planners, which choose the parameters of inexact sums."""

import abc
from collections.abc import Callable
from typing import Generic, TypeVar

import jax.numpy as jnp
from jaxtyping import Array

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import AbstractPlannedReduction, Points

H = TypeVar("H", bound=AbstractPlannedReduction)

SAFETY_FACTOR = 2  # the largest ratio of error to estimate in 6 000 cases was 1.6


class Planner(abc.ABC, Generic[H]):
    """Makes, enlarges and checks plans for one kind of inexact sums."""

    @abc.abstractmethod
    def is_applicable(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """Whether a plan can save time, judged by the shapes of a field only."""

    @abc.abstractmethod
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> H | None:
        """A plan that keeps the field within tolerance; `None` if it is too slow."""

    @abc.abstractmethod
    def enlarge(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> H | None:
        """A larger plan after a failure; `None` if exact sums would be faster."""

    @abc.abstractmethod
    def sum_convergence(
        self,
        reduction: H,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence:
        """Error of the field due to planned sums, relative to the largest velocity."""


def relative_convergence(
    error: Array, velocities: Array, tolerance: float
) -> Convergence:
    """The error of velocities, relative to the largest, as a `Convergence`."""
    scale = jnp.max(jnp.abs(velocities))
    relative = jnp.where(scale > 0, error / scale, error)
    return Convergence(relative, jnp.asarray(tolerance, error.dtype))
