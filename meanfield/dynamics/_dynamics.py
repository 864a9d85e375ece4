"""What freezes a measure into a velocity field."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from meanfield._typing import Time
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure


class AbstractDynamics(eqx.Module):
    """A rule that gives, at each time and for each measure, a velocity field."""

    @property
    @abc.abstractmethod
    def jumps(self) -> Float[Array, " k"]:
        """Times at which parameters jump; no integration step straddles one."""

    @abc.abstractmethod
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        """The field of `mu` at time `t`: works once, then answers for any tokens."""
