"""Velocity fields at one time and for one measure."""

import abc
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from ._array import require
from ._forces import CellForces
from .linalg import HIGHEST, product
from .tokens import Tokens


class Convergence(NamedTuple):
    """Convergence of the iteration that defines a field.

    Attributes:
        residual: the error reached; for Sinkhorn, the sup of |log(marginal/weight)|.
        tolerance: the tolerance for this error.
        iterations: the number of iterations; 0 if they are not counted.

    Examples:
        >>> from meanfield import Points, attentions
        >>> one = jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> field = attentions["sinkhorn"](one, one, one).field(0.0, mu)
        >>> solved = field.convergence
        >>> bool(solved.is_met)
        True
        >>> attentions["softmax"](one, one, one).field(0.0, mu).convergence is None
        True
    """

    residual: Float[Array, ""]
    tolerance: Float[Array, ""]
    iterations: Int[Array, ""] | int = 0

    @classmethod
    def zero(cls, like: Float[Array, ""]) -> "Convergence":
        """The `Convergence` of a field without iteration, in the dtype of `like`."""
        zero = jnp.zeros_like(like)
        return cls(zero, zero, jnp.zeros((), jnp.int32))

    @property
    def is_met(self) -> Bool[Array, ""]:
        """Whether the residual is within the tolerance, which NaN is not."""
        return self.residual <= self.tolerance

    @property
    def text(self) -> str:
        """Residual, tolerance and iterations as text; empty if the residual is zero."""
        residual, tolerance, iterations = map(float, self)
        if residual == 0:
            return ""
        suffix = f" after {iterations:.0f} iterations" if iterations else ""
        return f": {residual:.2g} where {tolerance:.2g} was asked{suffix}"


class AbstractExplicit(eqx.Module):
    """Base of fields and first variations that are computed without an iteration.

    Examples:
        >>> from meanfield.fields import AbstractExplicit, Affine
        >>> issubclass(Affine, AbstractExplicit)
        True
    """

    @property
    def convergence(self) -> Convergence | None:
        """`None`, since there is no iteration."""
        return None


class AbstractField(eqx.Module):
    """A velocity field $v$, which can be called on any tokens.

    Examples:
        >>> from meanfield import Points, attentions
        >>> one = jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> field = attentions["softmax"](one, one, one).field(0.0, mu)
        >>> print(field(mu.tokens))  # 1/2 and e/(1 + e)
        [[0.5   ]
         [0.7311]]
    """

    @abc.abstractmethod
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        """The velocities at `tokens`."""

    @property
    @abc.abstractmethod
    def convergence(self) -> Convergence | None:
        """Convergence of the field's iteration; `None` for fields without iteration."""

    @property
    def parts(self) -> tuple["AbstractField", CellForces | None]:
        """The velocity field, and the forces between grid cells that come with it.

        The forces are `None` for most fields.
        """
        return self, None

    @property
    def condition(self) -> Float[Array, ""] | None:
        r"""Condition number $c$: $|\delta v(x)| \le c\,b/(1-b)$ at every $x$.

        Here $b$ bounds the relative error of each exponential in the sums, and
        $\delta v$ is the resulting error of the field. `None` if $c$ is unknown.
        """
        return None


class AbstractAveragedField(AbstractField):
    """A field with known averages over Gaussians, which can therefore move a Gaussian.

    Examples:
        >>> from meanfield.fields import AbstractAveragedField, Affine
        >>> issubclass(Affine, AbstractAveragedField)
        True
    """

    @abc.abstractmethod
    def averages(
        self, mean: Float[Array, " d"], factor: Float[Array, "d r"]
    ) -> tuple[Float[Array, " d"], Float[Array, "d r"]]:
        r"""Averages $E\,v(\alpha + Yz)$ and $E[v(\alpha + Yz)\,z^\top]$ for normal $z$.

        They are the rates $\alpha'$ and $Y'$ of the Gaussian motion closest to $v$ in
        $L^2$; if $v$ is affine, that motion follows $v$ exactly.
        """


class Affine(AbstractExplicit, AbstractAveragedField):
    r"""The field $x \mapsto Lx + b$; the only kind that keeps Gaussians Gaussian.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.fields import Affine
        >>> field = Affine(-jnp.eye(2), jnp.array([1.0, 0.0]))
        >>> print(field(Tokens(jnp.array([[1.0, 0.0], [0.0, 2.0]]))))
        [[ 0.  0.]
         [ 1. -2.]]
        >>> print(field.covariance_rate(jnp.eye(2)))
        [[-2.  0.]
         [ 0. -2.]]
    """

    linear: Float[Array, "d d"]
    offset: Float[Array, " d"]

    @override
    def averages(
        self, mean: Float[Array, " d"], factor: Float[Array, "d r"]
    ) -> tuple[Float[Array, " d"], Float[Array, "d r"]]:
        mean_rate = product(self.linear, mean) + self.offset
        return mean_rate, product(self.linear, factor)

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        require("A field must be called with `Tokens(x)`", tokens, Tokens)
        return (
            jnp.matmul(tokens.x, self.linear.T, precision=HIGHEST)
            + self.offset[None, :]
        )

    @property
    @override
    def condition(self) -> Float[Array, ""]:
        """Zero, since the field contains no sum of exponentials."""
        return jnp.zeros((), self.linear.dtype)

    def covariance_rate(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        r"""Rate of change of a covariance: $L\Sigma + \Sigma L^\top$."""
        half = self.linear @ covariance
        return half + half.T


class Image(AbstractField):
    r"""The field $x \mapsto V f(x) + o$, for a matrix $V$ and a field $f$.

    Examples:
        >>> from meanfield import Points, Tokens, attentions
        >>> from meanfield.fields import Image
        >>> one = jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> inner = attentions["softmax"](one, one, one).field(0.0, mu)
        >>> print(Image(-one, jnp.ones(1), inner)(Tokens(jnp.zeros((1, 1)))))
        [[0.5]]
    """

    value: Float[Array, "d d"]
    offset: Float[Array, " d"]
    field: AbstractField

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        require("A field must be called with `Tokens(x)`", tokens, Tokens)
        velocity = self.field(tokens)
        return (
            jnp.matmul(velocity, self.value.T, precision=HIGHEST) + self.offset[None, :]
        )

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.field.convergence

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        r"""$|V|$ times the condition number of $f$."""
        inner = self.field.condition
        return None if inner is None else jnp.linalg.norm(self.value, 2) * inner


class Total(AbstractField):
    """The sum of fields.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.fields import Affine, Total
        >>> one = jnp.eye(1)
        >>> pull, push = Affine(-one, jnp.zeros(1)), Affine(one, jnp.ones(1))
        >>> print(Total((pull, push))(Tokens(jnp.array([[5.0]]))))
        [[1.]]
    """

    fields: tuple[AbstractField, ...]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return sum((f(tokens) for f in self.fields), jnp.zeros_like(tokens.x))

    @property
    @override
    def convergence(self) -> Convergence | None:
        convergences = [f.convergence for f in self.fields if f.convergence is not None]
        return worst_of(convergences) if convergences else None

    @property
    @override
    def parts(self) -> tuple[AbstractField, CellForces | None]:
        parts = [field.parts for field in self.fields]
        forces = [force for _, force in parts if force is not None]
        velocity = Total(tuple(velocity for velocity, _ in parts))
        return velocity, sum(forces[1:], forces[0]) if forces else None

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        """Sum of the condition numbers of the fields; `None` if one is unknown."""
        conditions = [c for f in self.fields if (c := f.condition) is not None]
        return (
            sum(conditions, jnp.zeros(()))
            if len(conditions) == len(self.fields)
            else None
        )


def worst_of_stack(stack: Convergence) -> Convergence:
    """The member of a stack with the largest ratio of residual to tolerance.

    Examples:
        >>> from meanfield.fields import Convergence, worst_of_stack
        >>> both = Convergence(jnp.array([0.5, 2.0]), jnp.array([1.0, 10.0]))
        >>> print(worst_of_stack(both).residual)
        0.5
    """
    index = jnp.argmax(stack.residual / stack.tolerance)
    counts = jnp.broadcast_to(stack.iterations, stack.residual.shape)
    return Convergence(stack.residual[index], stack.tolerance[index], counts[index])


def worst_of(members: Sequence[Convergence]) -> Convergence:
    """The member with the largest ratio of residual to tolerance.

    Examples:
        >>> from meanfield.fields import Convergence, worst_of
        >>> members = [Convergence(jnp.array(r), jnp.array(1.0), 7) for r in (2.0, 3.0)]
        >>> print(worst_of(members).residual)
        3.0
    """
    return worst_of_stack(Convergence(*map(jnp.stack, zip(*members, strict=True))))


def image(
    value: Float[Array, "d d"], offset: Float[Array, " d"], field: AbstractField
) -> AbstractField:
    """The image of `field` under `value`, plus `offset`; affine if `field` is affine.

    Examples:
        >>> from meanfield.fields import Affine, image
        >>> field = image(2 * jnp.eye(1), jnp.ones(1), Affine(jnp.eye(1), jnp.zeros(1)))
        >>> print(type(field).__name__, field.linear, field.offset)
        Affine [[2.]] [1.]
    """
    if isinstance(field, Affine):
        image_offset = product(value, field.offset) + offset
        return Affine(product(value, field.linear), image_offset)
    return Image(value, offset, field)


def total(fields: tuple[AbstractField, ...]) -> AbstractField:
    """The sum of `fields`; affine if they all are.

    Examples:
        >>> from meanfield.fields import Affine, total
        >>> pull = Affine(jnp.eye(1), jnp.ones(1))
        >>> field = total((pull, pull))
        >>> print(type(field).__name__, field.linear, field.offset)
        Affine [[2.]] [2.]
    """
    affine = [f for f in fields if isinstance(f, Affine)]
    if len(affine) == len(fields) > 0:
        linear = sum((f.linear for f in affine[1:]), affine[0].linear)
        return Affine(linear, sum((f.offset for f in affine[1:]), affine[0].offset))
    return Total(fields)
