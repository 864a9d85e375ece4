"""The interface of spaces, and Euclidean space."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import is_concrete, require
from meanfield._registry import Registry
from meanfield._typing import Numbers, PRNGKey
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.tokens import Tokens, as_tokens

_WHERE = "`space` is `Euclidean()`, `Sphere()` or `LayerNormed()`"
Vectors = Array | np.ndarray  # of shape (..., d)
OFF = 1e-6  # tokens may be this far from their space, relative to its scale


class AbstractSpace(eqx.Module):
    r"""A subset of $\mathbb{R}^d$ in which tokens move.

    All methods take arrays of shape (..., d). Velocities of attention are vectors of
    $\mathbb{R}^d$; `tangent` turns them into velocities of the space.

    Examples:
        >>> from meanfield.spaces import AbstractSpace, Sphere
        >>> space = Sphere()
        >>> isinstance(space, AbstractSpace), space.is_compact
        (True, True)
    """

    numbers: ClassVar[str] = "left out"  # what may follow the colon of its name

    @classmethod
    def from_text(cls, text: str, d: int) -> "AbstractSpace":
        """The space in `d` dimensions with the numbers that follow its name.

        Raises:
            ValueError: if the text has other numbers than `numbers` says.
        """
        del d
        raise ValueError(text)

    @property
    def is_compact(self) -> bool:
        """Whether no flow can leave the space, so that none blows up."""
        return True

    @abc.abstractmethod
    def scale(self, d: int) -> float:
        """The size of the space in `d` dimensions, by which distances are judged."""

    @abc.abstractmethod
    def tangent(self, x: Vectors, v: Vectors) -> Float[Array, "... d"]:
        """The orthogonal projection of vectors `v` onto the tangent spaces at `x`."""

    @abc.abstractmethod
    def project(self, x: Vectors) -> Float[Array, "... d"]:
        """The nearest point of the space; NaN if there is none."""

    @abc.abstractmethod
    def difference(self, x: Vectors, y: Vectors) -> Float[Array, "... d"]:
        """The initial velocity of the shortest path from `y` to `x` in unit time."""

    def distance(self, x: Vectors, y: Vectors) -> Float[Array, "..."]:
        """The length of the shortest path from `y` to `x`."""
        return jnp.linalg.norm(self.difference(x, y), axis=-1)

    def uniform(self, key: PRNGKey, n: int, d: int) -> Float[Array, "n d"]:
        """Independent points of the uniform distribution.

        Raises:
            InvalidInputError: if the space does not exist in `d` dimensions.
            UnsupportedError: if the space is not compact.
        """
        self.check_dimension(d)
        return self.project(jax.random.normal(key, (n, d)))

    def check_dimension(self, d: int) -> None:
        """Checks that the space exists in `d` dimensions.

        Raises:
            InvalidInputError: if it does not.
        """
        del d

    def check(self, x: Vectors) -> None:
        """Checks that points lie in the space, up to 1e-6 of its scale.

        Points that are traced by `jit` are not checked, and neither are points that are
        not finite.

        Raises:
            InvalidInputError: naming the farthest point, and its distance.
        """
        self.check_dimension(x.shape[-1])
        if not is_concrete(x):
            return
        steps = np.asarray(x - self.project(x))
        gaps = np.abs(steps).max(axis=-1)
        is_far = ~(gaps <= OFF * self.scale(x.shape[-1])) & np.isfinite(x).all(axis=-1)
        if not is_far.any():
            return
        worst = int(np.argmax(np.where(is_far, np.nan_to_num(gaps, nan=np.inf), -1)))
        place = f"is {np.linalg.norm(steps[worst]):.3g} away"
        if np.isnan(gaps[worst]):
            place = "has no nearest point there"
        raise InvalidInputError(
            f"Tokens must lie in the space {self}; token {worst} {place}. Divide by "
            "norms, or use the nearest points, `space.project(x)` in Python."
        )

    def round(self, x: Vectors) -> Float[Array, "n d"]:
        """The points, with those off the space by more than rounding projected."""
        image = self.project(x)
        rounding = 8 * float(jnp.finfo(x.dtype).eps) * self.scale(x.shape[-1])
        is_off = jnp.abs(image - x).max(axis=-1, keepdims=True) > rounding
        return jnp.where(is_off, image, x)


class Euclidean(AbstractSpace):
    r"""The whole of $\mathbb{R}^d$.

    Examples:
        >>> from meanfield.spaces import Euclidean
        >>> print(Euclidean().distance(jnp.zeros(2), jnp.array([3.0, 4.0])))
        5.0
    """

    @property
    @override
    def is_compact(self) -> bool:
        return False

    @override
    def scale(self, d: int) -> float:
        return 1.0

    @override
    def tangent(self, x: Vectors, v: Vectors) -> Array:
        del x
        return jnp.asarray(v)

    @override
    def project(self, x: Vectors) -> Array:
        return jnp.asarray(x)

    @override
    def difference(self, x: Vectors, y: Vectors) -> Array:
        return jnp.subtract(x, y)

    @override
    def uniform(self, key: PRNGKey, n: int, d: int) -> Array:
        raise UnsupportedError(
            "Euclidean space has no uniform distribution: use another initial cloud, "
            "or a compact space such as `Sphere()`."
        )


class Ambient(AbstractSpace):
    r"""A space whose tangent vectors are all vectors of the surrounding space.

    It is for Euler's method, a step of which is then $x + hv$, projected: a discrete
    layer with its normalisation, $x \leftarrow (x + hv)/|x + hv|$ on the unit sphere.

    Attributes:
        space: the space in which steps end.

    Examples:
        >>> from meanfield.spaces import Ambient, Sphere
        >>> layer = Ambient(Sphere())
        >>> print(layer.tangent(jnp.array([1.0, 0.0]), jnp.array([2.0, 1.0])))
        [2. 1.]
    """

    space: AbstractSpace

    @property
    @override
    def is_compact(self) -> bool:
        return self.space.is_compact

    @override
    def scale(self, d: int) -> float:
        return self.space.scale(d)

    @override
    def tangent(self, x: Vectors, v: Vectors) -> Array:
        del x
        return jnp.asarray(v)

    @override
    def project(self, x: Vectors) -> Array:
        return self.space.project(x)

    @override
    def difference(self, x: Vectors, y: Vectors) -> Array:
        return self.space.difference(x, y)

    @override
    def distance(self, x: Vectors, y: Vectors) -> Array:
        return self.space.distance(x, y)

    @override
    def uniform(self, key: PRNGKey, n: int, d: int) -> Array:
        return self.space.uniform(key, n, d)

    @override
    def check_dimension(self, d: int) -> None:
        self.space.check_dimension(d)


def tokens_in(space: AbstractSpace, x: Numbers, position: Numbers | None) -> Tokens:
    """Tokens at the points of a space nearest to `x`, which must be close.

    Raises:
        InvalidInputError: if `x` is not a finite matrix, or not in the space.

    Examples:
        >>> from meanfield.spaces import Sphere, tokens_in
        >>> print(tokens_in(Sphere(), [[0.0, 1.0 + 1e-9]], None).x)
        [[0. 1.]]
    """
    require(_WHERE, space, AbstractSpace)
    tokens = as_tokens(x, position)
    if isinstance(space, Euclidean):
        return tokens  # any operation would compile a program for each shape
    space.check(tokens.x)
    return Tokens(space.round(tokens.x), tokens.position)


spaces: Registry[type[AbstractSpace]] = Registry("space")
spaces.register("euclidean")(Euclidean)
