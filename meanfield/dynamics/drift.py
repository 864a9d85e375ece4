"""An affine drift, which does not depend on the measure."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array
from meanfield._typing import Numbers, Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Affine
from meanfield.measures import AbstractMeasure

from ._dynamics import AbstractDynamics


class Drift(AbstractDynamics):
    """The velocity $Mx + b$, which does not depend on the measure.

    To add a drift to other dynamics, use `Sum`.

    Attributes:
        matrix: $M$.
        offset: $b$, zero by default.

    Raises:
        InvalidInputError: if `matrix` is not square, or the shape of `offset` does not
            match it.

    Examples:
        >>> from meanfield import Drift, Gaussian, flow
        >>> run = flow(
        ...     Drift(-jnp.eye(1), [1.0]),
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)),
        ...     [0.0, 1.0],
        ... )
        >>> print(run.final.mean, 1 - np.exp(-1))
        [0.6321] 0.63212...
    """

    matrix: Float[Array, "d d"]
    offset: Float[Array, " d"]

    def __init__(self, matrix: Numbers, offset: Numbers | None = None) -> None:
        self.matrix = float_array("matrix", matrix)
        shape = self.matrix.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InvalidInputError(f"`matrix` must be square; got shape {shape}.")
        zero = jnp.zeros_like(self.matrix[0])
        self.offset = zero if offset is None else float_array("offset", offset)
        if self.offset.shape != shape[:1]:
            raise InvalidInputError(
                f"`offset` must be a vector of {shape[0]} numbers; got shape "
                f"{self.offset.shape}."
            )

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return Affine(self.matrix, self.offset)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""Always true: $|Mx + b| \leq |M|\,|x| + |b|$."""
        return jnp.ones((), bool)
