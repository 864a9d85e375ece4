r"""Layer normalisation around an attention, in continuous time.

With a residual stream $x = r\theta$, $|\theta| = 1$, and the velocity $A$ of a dynamics
at the directions of all tokens, each normalisation says how $x$ moves.
"""

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import positive, require
from meanfield._registry import Registry
from meanfield._typing import Scalar, Time
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
    unsupported_measure,
)
from meanfield.spaces import Euclidean, Sphere
from meanfield.tokens import Tokens

from ._dynamics import AbstractDynamics

Vectors = Float[Array, "n d"]


class AbstractNormalisation(eqx.Module):
    """How tokens move, given a velocity at their directions.

    Examples:
        >>> from meanfield.dynamics import AbstractNormalisation, normalisation_of
        >>> isinstance(normalisation_of("pre"), AbstractNormalisation)
        True
    """

    @property
    def jumps(self) -> Float[Array, " k"]:
        """Times at which the rule changes; none by default."""
        return jnp.zeros(0)

    @abc.abstractmethod
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        """The velocity of tokens at `x` with directions `unit`, from that of them."""


class Post(AbstractNormalisation):
    r"""Norm after the sum: $\theta' = P_\theta A$, $r' = 0$; the flow on the sphere."""

    @override
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        return _lengths(x) * _tangential(unit, A)


class Pre(AbstractNormalisation):
    r"""Norm of the input: $x' = A$; $\theta' = P_\theta A/r$, $r' = \theta\cdot A$."""

    @override
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        return A


class Peri(AbstractNormalisation):
    r"""Norms of the input and of the output: $x' = A/|A|$."""

    @override
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        return _unit(A)


class Mix(AbstractNormalisation):
    r"""`Post` until the time `switch`, and `Pre` from then on.

    Attributes:
        switch: $\tau$, the time of the change.
    """

    switch: float

    def __check_init__(self) -> None:
        positive("switch", self.switch)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.array([self.switch])

    @override
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        post = _lengths(x) * _tangential(unit, A)
        return jnp.where(jnp.asarray(t) < self.switch, post, A)


class NGpt(AbstractNormalisation):
    r"""Normalised steps of a length $\alpha$: $\theta' = \alpha P_\theta A/|A|$.

    Attributes:
        rate: $\alpha$.
    """

    rate: float

    def __check_init__(self) -> None:
        positive("rate", self.rate)

    @override
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        return self.rate * _lengths(x) * _tangential(unit, _unit(A))


class Sqrt(AbstractNormalisation):
    r"""`Pre` with layers scaled by the root of the depth: $x' = A/\sqrt{1 + t}$."""

    @override
    def velocity(self, t: Time, x: Vectors, unit: Vectors, A: Vectors) -> Vectors:
        return A / jnp.sqrt(1 + jnp.asarray(t, A.dtype))


normalisations: Registry[Callable[..., AbstractNormalisation]] = Registry(
    "normalisation"
)
normalisations.register("post")(Post)
normalisations.register("pre")(Pre)
normalisations.register("peri")(Peri)
normalisations.register("mix")(Mix)
normalisations.register("ngpt")(NGpt)
normalisations.register("sqrt")(Sqrt)


def normalisation_of(text: str) -> AbstractNormalisation:
    """The normalisation `NAME`, or `NAME:NUMBER` such as `mix:2`.

    Raises:
        InvalidInputError: if a number is missing, not allowed or not positive.
        UnknownNameError: if there is no such normalisation.

    Examples:
        >>> from meanfield.dynamics import normalisation_of
        >>> normalisation_of("ngpt:0.5")
        NGpt(rate=0.5)
    """
    name, _, number = text.partition(":")
    make = normalisations[name]
    names = [*getattr(make, "__dataclass_fields__", ())]
    try:
        values = [float(number)] if number else []
    except ValueError:
        values = []
    if len(values) != len(names) or (number and not values):
        form = ":".join([name, *map(str.upper, names)])
        raise InvalidInputError(
            f"This normalisation must be written `{form}`; got `{text}`."
        )
    return make(*values)


class Normalised(AbstractDynamics):
    r"""A dynamics of the directions of tokens, with a normalisation.

    The tokens are $x = r\theta$ with $r > 0$, in Euclidean space. `dynamics` sees the
    directions $\theta$ only.

    Attributes:
        dynamics: the dynamics, such as an attention.
        normalisation: how tokens move, such as `normalisation_of("pre")`.

    Examples:
        >>> from meanfield import Points, attentions, flow
        >>> from meanfield.dynamics import Normalised, normalisation_of
        >>> attention = attentions["softmax"](*[jnp.eye(8)] * 3)
        >>> start = Points.uniform(jnp.eye(8))
        >>> for name in ("post", "pre", "ngpt:1"):
        ...     law = Normalised(attention, normalisation_of(name))
        ...     x = flow(law, start, [0.0, 1.0]).final.tokens.x
        ...     print(round(float(x[0] @ x[1] / (x[0] @ x[0])), 6))
        0.362587
        0.29643
        0.678279
    """

    dynamics: AbstractDynamics
    normalisation: AbstractNormalisation

    def __check_init__(self) -> None:
        require("`Normalised` must wrap a dynamics", self.dynamics, AbstractDynamics)
        requirement = "`normalisation` must be one of `normalisations`"
        require(requirement, self.normalisation, AbstractNormalisation)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        times = [self.dynamics.jumps, self.normalisation.jumps]
        return jnp.sort(jnp.concatenate(times))

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        inner = self.dynamics.field(t, _directions(mu))
        return NormalisedField(self.normalisation, inner, jnp.asarray(t))

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """Whether the dynamics is: then it is bounded at tokens of length one."""
        return self.dynamics.is_linearly_bounded(t, _directions(mu))


class NormalisedField(AbstractField):
    """The velocity of tokens, from a field at their directions."""

    normalisation: AbstractNormalisation
    inner: AbstractField
    t: Scalar

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        unit = _unit(tokens.x)
        velocity = self.inner(Tokens(unit, tokens.position))
        return self.normalisation.velocity(self.t, tokens.x, unit, velocity)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.inner.convergence


def check_directions(mu: AbstractMeasure) -> None:
    """Checks that all tokens of a measure have directions.

    Raises:
        InvalidInputError: if a token is zero.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.dynamics import check_directions
        >>> check_directions(Points.uniform([[1.0], [0.0]]))
        Traceback (most recent call last):
            ...
        meanfield.errors.InvalidInputError: Token 1 is zero, and has no direction: a ...
    """
    x = np.asarray(_directions(mu).tokens.x)
    places = np.flatnonzero(np.isnan(x).any(axis=1))
    if places.size:
        raise InvalidInputError(
            f"Token {places[0]} is zero, and has no direction: a flow with "
            "`normalise` needs tokens that are not zero."
        )


class _DirectionsReader(AbstractReader[Points]):
    """Reader that returns the directions of tokens, in Euclidean space."""

    reads: ClassVar[str] = "Directions are those of tokens: use points"

    @override
    def read_points(self, mu: Points) -> Points:
        units = mu.replace_coordinates(_unit(mu.tokens.x))
        return replace(units, space=Euclidean())

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> Points:
        raise unsupported_measure(self, mu)

    @override
    def read_grid(self, mu: Grid) -> Points:
        raise unsupported_measure(self, mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> Points:
        raise unsupported_measure(self, mu)


_directions = _DirectionsReader()


def _lengths(x: Vectors) -> Float[Array, "n 1"]:
    """The lengths of tokens, without squares that could overflow."""
    return jnp.sum(x * _unit(x), axis=1, keepdims=True)


def _unit(x: Vectors) -> Vectors:
    return Sphere().project(x)


def _tangential(unit: Vectors, v: Vectors) -> Vectors:
    return v - unit * jnp.sum(unit * v, axis=1, keepdims=True)
