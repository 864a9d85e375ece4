"""Families of initial Gaussians: covariances selected by a name such as `grid:20`."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._registry import Registry
from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

MAX_MEMBERS = 100_000
_WIDEST = 1e100  # bound on widths, so that squares do not overflow
_ROUNDING = 1e-12  # a covariance Σ counts as singular if 4 det Σ is at most this


@dataclass(frozen=True)
class Sizes:
    """The parameters of a family: `grid:20:0.5` has `Sizes(20, 0.5)`.

    Examples:
        >>> from meanfield.measures.families import Sizes
        >>> Sizes(20), Sizes(20, 0.5)
        (Sizes(count=20, width=1.0), Sizes(count=20, width=0.5))
    """

    count: int
    width: float = 1.0


Family = Callable[..., Float[Array, "members d d"]]
families: Registry[Family] = Registry("family of starts")


def family(name: str, d: int, *, key: PRNGKey) -> Float[Array, "members d d"]:
    """The covariances of the family `NAME:COUNT` or `NAME:COUNT:WIDTH`.

    Raises:
        InvalidInputError: if the numbers are invalid, or the dimension does not fit.
        UnknownNameError: if the family is not registered.

    Examples:
        >>> from meanfield.measures.families import family
        >>> starts = family("grid:20", 2, key=jax.random.key(0))
        >>> print(
        ...     starts.shape, bool(jnp.allclose(jnp.trace(starts, axis1=1, axis2=2), 1))
        ... )
        (276, 2, 2) True
    """
    kind, *numbers = name.split(":")
    make = families[kind]
    try:
        sizes = Sizes(int(numbers[0]), *map(float, numbers[1:2]))
    except (ValueError, IndexError):
        sizes = Sizes(0)
    is_valid = sizes.count >= 1 and 0 < sizes.width < _WIDEST
    if len(numbers) > 2 or not is_valid:
        raise InvalidInputError(
            "A family must be `grid:COUNT[:WIDTH]` or `random:COUNT[:TRACE]`, "
            f"such as `grid:20`; got `{name}`."
        )
    return make(sizes, d, key=key)


@families.register("grid")
def grid(sizes: Sizes, d: int, *, key: PRNGKey) -> Float[Array, "members d d"]:
    r"""Covariances of trace one in the plane, on a square grid.

    For $\Sigma = \begin{pmatrix} a & c \\ c & b \end{pmatrix}$, the grid has `count`
    values of $a - b$ and of $2c$ from `-width` to `width`. Only positive definite
    matrices are kept. In castin2025, they are initial values of flows of covariances.

    Raises:
        InvalidInputError: if `d` is not two, or no covariance is positive definite.

    Examples:
        >>> from meanfield.measures.families import Sizes, grid
        >>> print(grid(Sizes(3, 0.5), 2, key=jax.random.key(0))[4])  # the middle
        [[0.5 0. ]
         [0.  0.5]]
    """
    del key
    if d != 2:
        raise InvalidInputError(
            f"The family `grid` needs dimension 2; got {d}. Use `random:COUNT` instead."
        )
    # NumPy computes in double precision, whatever the precision of JAX. So the members
    # do not depend on the precision of JAX.
    _check_count(sizes.count)
    line = np.linspace(-sizes.width, sizes.width, sizes.count)
    line = line[np.abs(line) < 1]
    # A family is too large if a square inside the disc already has too many points.
    _check_count(int(np.count_nonzero(np.abs(line) < 0.7)) ** 2)
    x, y = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))
    is_inside = x**2 + y**2 < 1 - _ROUNDING
    x, y = x[is_inside], y[is_inside]
    _check_count(x.size)
    if x.size == 0:
        raise InvalidInputError(
            "No covariance of this grid is positive definite. Use a larger `COUNT`, or "
            "a `WIDTH` below 0.7."
        )
    rows = [np.stack([1 + x, y], axis=-1), np.stack([y, 1 - x], axis=-1)]
    return jnp.asarray(np.stack(rows, axis=-2) / 2)


@families.register("random")
def random(sizes: Sizes, d: int, *, key: PRNGKey) -> Float[Array, "members d d"]:
    """Random covariances GGᵀ, scaled to the trace `width`.

    The entries of the square matrix G are i.i.d. standard normal.

    Raises:
        InvalidInputError: in dimension one, or if there are too many members.

    Examples:
        >>> from meanfield.measures.families import Sizes, random
        >>> Sigma = random(Sizes(10, 2.0), 3, key=jax.random.key(0))
        >>> print(Sigma.shape, jnp.trace(Sigma[0]))
        (10, 3, 3) 2.0
    """
    if d == 1:
        raise InvalidInputError(
            "`d` must be at least 2 for a random family. In dimension 1 there is only "
            "one covariance of a given trace."
        )
    _check_count(sizes.count)
    G = jax.random.normal(key, (sizes.count, d, d))
    Sigma = G @ jnp.swapaxes(G, -1, -2)
    trace = jnp.trace(Sigma, axis1=-2, axis2=-1)
    return sizes.width * Sigma / trace[:, None, None]


def _check_count(count: int) -> None:
    if count > MAX_MEMBERS:
        raise InvalidInputError(
            f"A family must have at most {MAX_MEMBERS} members; got {count}."
        )
