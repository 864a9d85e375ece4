"""Velocity fields, frozen at one time and one measure."""

import abc
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from typing_extensions import override

from ._array import require
from ._forces import CellForces
from .linalg import HIGHEST, product
from .tokens import Tokens


class Convergence(NamedTuple):
    """How well an iteration behind a field was solved.

    Attributes:
        residual: the error reached; for Sinkhorn the sup of |log marginal|.
        tolerance: the error asked for.
        iterations: how many were made, where that is counted; else 0.

    Examples:
        >>> from meanfield import Points, attentions
        >>> one = jnp.eye(1)
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> field = attentions["sinkhorn"](one, one, one).field(0.0, mu)
        >>> solved = field.convergence
        >>> bool(solved.residual <= solved.tolerance)
        True
        >>> attentions["softmax"](one, one, one).field(0.0, mu).convergence is None
        True
    """

    residual: Float[Array, ""]
    tolerance: Float[Array, ""]
    iterations: Int[Array, ""] | int = 0

    @property
    def text(self) -> str:
        """The iteration that missed its tolerance, in numbers; empty if none did."""
        residual, tolerance, iterations = map(float, self)
        if residual == 0:
            return ""
        after = f" after {iterations:.0f} iterations" if iterations else ""
        return f": {residual:.2g} where {tolerance:.2g} was asked{after}"


class AbstractExplicit(eqx.Module):
    """What no iteration defines: a field, or the first variation of an energy.

    Examples:
        >>> from meanfield.fields import AbstractExplicit, Affine
        >>> issubclass(Affine, AbstractExplicit)
        True
    """

    @property
    def convergence(self) -> Convergence | None:
        """The error of an iteration: there was none."""
        return None


class AbstractField(eqx.Module):
    """A velocity field $v$; call it on any tokens.

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
        """Error of the iteration that defined the field; `None` if there was none."""

    @property
    def parted(self) -> tuple["AbstractField", CellForces | None]:
        """What it is at tokens, and what moves mass between the cells of a grid beside.

        Nothing does, for most fields.
        """
        return self, None

    @property
    def condition(self) -> Float[Array, ""] | None:
        r"""$c$ with $|\delta v(x)| \le c\,b/(1-b)$ at every $x$.

        Where each exponential that is summed over is off by no more than $b$ times
        itself; `None` where no such number is known.
        """
        return None


class AbstractAveragedField(AbstractField):
    """A field that can move a Gaussian, for it knows its averages over one.

    Examples:
        >>> from meanfield.fields import AbstractAveragedField, Affine
        >>> issubclass(Affine, AbstractAveragedField)
        True
    """

    @abc.abstractmethod
    def averages(
        self, mean: Float[Array, " d"], factor: Float[Array, "d r"]
    ) -> tuple[Float[Array, " d"], Float[Array, "d r"]]:
        r"""$E\,v(\alpha + Yz)$ and $E[v(\alpha + Yz)\,z^\top]$ for normal $z$.

        The rates $\alpha'$ and $Y'$ of the Gaussian motion that is closest to $v$ in
        $L^2$, which is $v$ itself where it is affine.
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
        moved = product(self.linear, mean) + self.offset
        return moved, product(self.linear, factor)

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        require("A field is asked at `Tokens(x)`", tokens, Tokens)
        return (
            jnp.matmul(tokens.x, self.linear.T, precision=HIGHEST)
            + self.offset[None, :]
        )

    @property
    @override
    def condition(self) -> Float[Array, ""]:
        """Zero: nothing is summed over."""
        return jnp.zeros((), self.linear.dtype)

    def covariance_rate(self, covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
        r"""$L\Sigma + \Sigma L^\top$: how it changes a covariance that it moves."""
        half = self.linear @ covariance
        return half + half.T


class Image(AbstractField):
    r"""The field $x \mapsto V f(x) + o$.

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
        require("A field is asked at `Tokens(x)`", tokens, Tokens)
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
        r"""$|V|$ times that of $f$."""
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
        known = [f.convergence for f in self.fields if f.convergence is not None]
        return worst_of(known) if known else None

    @property
    @override
    def parted(self) -> tuple[AbstractField, CellForces | None]:
        parts = [field.parted for field in self.fields]
        forces = [force for _, force in parts if force is not None]
        velocity = Total(tuple(velocity for velocity, _ in parts))
        return velocity, sum(forces[1:], forces[0]) if forces else None

    @property
    @override
    def condition(self) -> Float[Array, ""] | None:
        """Those of all together."""
        known = [c for f in self.fields if (c := f.condition) is not None]
        return sum(known, jnp.zeros(())) if len(known) == len(self.fields) else None


def worst(stacked: Convergence) -> Convergence:
    """The member of a stack that is furthest from its tolerance.

    Examples:
        >>> from meanfield.fields import Convergence, worst
        >>> both = Convergence(jnp.array([0.5, 2.0]), jnp.array([1.0, 10.0]))
        >>> print(worst(both).residual)
        0.5
    """
    index = jnp.argmax(stacked.residual / stacked.tolerance)
    counts = jnp.broadcast_to(stacked.iterations, stacked.residual.shape)
    return Convergence(stacked.residual[index], stacked.tolerance[index], counts[index])


def worst_of(members: Sequence[Convergence]) -> Convergence:
    """The one that is furthest from its tolerance.

    Examples:
        >>> from meanfield.fields import Convergence, worst_of
        >>> members = [Convergence(jnp.array(r), jnp.array(1.0), 7) for r in (2.0, 3.0)]
        >>> print(worst_of(members).residual)
        3.0
    """
    return worst(Convergence(*map(jnp.stack, zip(*members, strict=True))))


def image(
    value: Float[Array, "d d"], offset: Float[Array, " d"], field: AbstractField
) -> AbstractField:
    """`value` after `field`, plus `offset`; affine if `field` is.

    Examples:
        >>> from meanfield.fields import Affine, image
        >>> field = image(2 * jnp.eye(1), jnp.ones(1), Affine(jnp.eye(1), jnp.zeros(1)))
        >>> print(type(field).__name__, field.linear, field.offset)
        Affine [[2.]] [1.]
    """
    if isinstance(field, Affine):
        moved = product(value, field.offset) + offset
        return Affine(product(value, field.linear), moved)
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
