"""The feed-forward part of a layer: each velocity depends on one token only."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array
from meanfield._typing import Numbers, Time
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.fields import AbstractExplicit, AbstractField
from meanfield.linalg import HIGHEST
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Facing,
    Gaussian,
    Points,
    Quadrature,
)
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics


class Perceptron(AbstractDynamics):
    r"""The velocity $W_2\,\mathrm{relu}(W_1 x + b_1) + b_2$ of a perceptron.

    The velocity does not depend on the measure. To add a perceptron to other dynamics,
    use `Sum`. Gaussians do not stay Gaussian; `Projected` approximates their flow.

    Attributes:
        inner: $W_1$, with a row for each hidden unit.
        outer: $W_2$, with a column for each hidden unit.
        bias: $b_1$, zero by default.
        offset: $b_2$, zero by default.

    Raises:
        InvalidInputError: if the shapes of these arrays do not match.

    Examples:
        >>> from meanfield import Perceptron, Points
        >>> fold = Perceptron([[1.0], [-1.0]], [[1.0, 1.0]])  # relu(x) + relu(-x) = |x|
        >>> mu = Points.uniform([[-2.0], [3.0]])
        >>> print(fold.field(0.0, mu)(mu.tokens).ravel())
        [2. 3.]
    """

    inner: Float[Array, "h d"]
    outer: Float[Array, "d h"]
    bias: Float[Array, " h"]
    offset: Float[Array, " d"]

    def __init__(
        self,
        inner: Numbers,
        outer: Numbers,
        *,
        bias: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> None:
        self.inner, self.outer = (
            float_array("inner", inner),
            float_array("outer", outer),
        )
        shape = self.inner.shape
        if len(shape) != 2 or self.outer.shape != shape[::-1]:
            raise InvalidInputError(
                "`inner` and `outer` must be matrices of shapes (h, d) and (d, h); got "
                f"{shape} and {self.outer.shape}."
            )
        zeros = (jnp.zeros(size, self.inner.dtype) for size in shape)
        parts = zip(("bias", "offset"), (bias, offset), zeros, strict=True)
        self.bias, self.offset = (
            zero if part is None else float_array(name, part)
            for name, part, zero in parts
        )
        if (*self.bias.shape, *self.offset.shape) != shape:
            raise InvalidInputError(
                f"`bias` must have shape ({shape[0]},) and `offset` ({shape[1]},); got "
                f"{self.bias.shape} and {self.offset.shape}."
            )

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return _PerceptronReader(self)(mu)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        r"""Always true: $|v| \leq |W_2|(|W_1||x| + |b_1|) + |b_2|$."""
        return jnp.ones((), bool)


class PerceptronField(AbstractExplicit, AbstractField):
    """The velocity field of a perceptron."""

    perceptron: Perceptron

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        part = self.perceptron
        sums = (
            jnp.matmul(tokens.x, part.inner.T, precision=HIGHEST) + part.bias[None, :]
        )
        activations = jax.nn.relu(sums)
        return (
            jnp.matmul(activations, part.outer.T, precision=HIGHEST)
            + part.offset[None, :]
        )

    @property
    @override
    def condition(self) -> Float[Array, ""]:
        """Condition number zero, since the field contains no sum of exponentials."""
        return jnp.zeros((), self.perceptron.inner.dtype)


@dataclass(frozen=True)
class _PerceptronReader(AbstractReader[AbstractField]):
    """Reader that returns the field of a perceptron, or raises for a plain Gaussian."""

    perceptron: Perceptron
    reads = "A perceptron moves points, grids and projected Gaussians"

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return PerceptronField(self.perceptron)

    @override
    def read_facing(self, mu: Facing) -> AbstractField:
        return self(mu.queries)

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        raise NotClosedError(
            "A perceptron does not keep Gaussians Gaussian. Use points, a grid, "
            "`projected`, or an affine drift."
        )

    @override
    def read_quadrature(self, mu: Quadrature) -> AbstractField:
        return PerceptronField(self.perceptron)
