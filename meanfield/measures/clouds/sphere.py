r"""Initial tokens on the unit sphere, by name and number, such as `vmf:5`.

On another space, such as a sphere of radius 2, they are projected to it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from .named import clouds, sphere

_TRIALS = 10_000  # candidates for each token of `poisson`, before it gives up


@clouds.register("vmf")
def vmf(
    n: int, d: int, concentration: float = 1.0, *, key: PRNGKey
) -> Float[Array, "n d"]:
    r"""Von Mises–Fisher distribution, with density $\propto e^{c\, x_1}$.

    Args:
        n: the number of tokens.
        d: the dimension, at least 2.
        concentration: $c > 0$.
        key: the random key.

    Examples:
        >>> from meanfield.measures.clouds.sphere import vmf
        >>> x = vmf(10_000, 3, 5.0, key=jax.random.key(0))
        >>> bool(abs(x[:, 0].mean() - (1 / np.tanh(5) - 1 / 5)) < 0.01)
        True
    """
    _check(d >= 2, f"The cloud `vmf` needs d ≥ 2; got d = {d}.")
    _check(concentration > 0, f"The number of `vmf` must be > 0; got {concentration}.")
    first = np.eye(d)[0]
    law = scipy.stats.vonmises_fisher(first, concentration, seed=_generator(key))
    return jnp.asarray(law.rvs(n).reshape(n, d))


@clouds.register("orthogonal")
def orthogonal(n: int, d: int, *, key: PRNGKey) -> Float[Array, "n d"]:
    """The first `n` unit vectors of the axes.

    Examples:
        >>> from meanfield.measures.clouds.sphere import orthogonal
        >>> print(orthogonal(2, 3, key=jax.random.key(0)))
        [[1. 0. 0.]
         [0. 1. 0.]]
    """
    return equiangular(n, d, key=key)


@clouds.register("equiangular")
def equiangular(
    n: int, d: int, cosine: float = 0.0, *, key: PRNGKey
) -> Float[Array, "n d"]:
    r"""Tokens of which any two have the same cosine, from $-1/(n-1)$ to 1.

    They are the rows of $\sqrt{1 - \rho}\, I + c\,\mathbf 1\mathbf 1^\top$.

    Examples:
        >>> from meanfield.measures.clouds.sphere import equiangular
        >>> x = equiangular(3, 3, 0.5, key=jax.random.key(0))
        >>> print(x @ x.T)
        [[1.  0.5 0.5]
         [0.5 1.  0.5]
         [0.5 0.5 1. ]]
    """
    del key
    _check(
        n <= d,
        f"{n} tokens with one cosine need as many dimensions: give d ≥ {n}; got {d}.",
    )
    _check(
        (n - 1) * cosine >= -1 and cosine <= 1,
        f"The cosine of {n} equiangular tokens must be between −1/{n - 1} and 1; got "
        f"{cosine}.",
    )
    spread, whole = np.sqrt(1 - cosine), np.sqrt(1 + (n - 1) * cosine)
    shift = (whole - spread) / n * (np.arange(d) < n)
    return jnp.asarray(spread * np.eye(n, d) + shift)


@clouds.register("caps")
def caps(
    n: int, d: int, count: float = 4, angle: float = 0.3, *, key: PRNGKey
) -> Float[Array, "n d"]:
    r"""Uniform distribution on `count` caps of angular radius `angle`, in equal parts.

    The centres are uniform on the sphere.

    Examples:
        >>> from meanfield.measures.clouds.sphere import caps
        >>> x = caps(100, 3, 1, 0.1, key=jax.random.key(0))
        >>> bool((x @ x.T).min() >= np.cos(0.2))
        True
    """
    _check(d >= 2, f"The cloud `caps` needs d ≥ 2; got d = {d}.")
    _check(
        count >= 1 and count == int(count) and 0 < angle <= np.pi / 2,
        "`caps:COUNT:ANGLE` needs a whole number of caps, and an angle from 0 to π/2; "
        f"got {count:g} and {angle:g}.",
    )
    centre_key, share_key, side_key = jax.random.split(key, 3)
    centres = sphere(int(count), d, key=centre_key)[jnp.arange(n) % int(count)]
    # The share of a cap within the angle t is I(sin²t; (d − 1)/2, 1/2), up to a factor.
    power = (d - 1) / 2, 0.5
    whole = scipy.special.betainc(*power, np.sin(angle) ** 2)
    shares = whole * np.asarray(jax.random.uniform(share_key, (n,)))
    sine_squared = jnp.asarray(scipy.special.betaincinv(*power, shares))[:, None]
    sides = sphere(n, d, key=side_key)
    sides -= centres * jnp.sum(centres * sides, axis=1, keepdims=True)
    sides /= jnp.linalg.norm(sides, axis=1, keepdims=True)
    return jnp.sqrt(1 - sine_squared) * centres + jnp.sqrt(sine_squared) * sides


@clouds.register("perturbed")
def perturbation(
    n: int, d: int, deviation: float = 0.1, *, key: PRNGKey
) -> Float[Array, "n d"]:
    """The first axis plus normal noise of a standard deviation, projected.

    Examples:
        >>> from meanfield.measures.clouds.sphere import perturbation
        >>> x = perturbation(5, 3, 1e-3, key=jax.random.key(0))
        >>> bool(x[:, 0].min() > 0.9999)
        True
    """
    x = deviation * jax.random.normal(key, (n, d)) + jnp.eye(1, d)
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


@clouds.register("poisson")
def poisson(
    n: int, d: int, distance: float = 0.1, *, key: PRNGKey
) -> Float[Array, "n d"]:
    """Uniform tokens, one after another, at angles of at least `distance` from others.

    Raises:
        InvalidInputError: if some token found no place in 10 000 trials.

    Examples:
        >>> from meanfield.measures.clouds.sphere import poisson
        >>> x = poisson(20, 3, 0.3, key=jax.random.key(0))
        >>> bool((x @ x.T - 2 * jnp.eye(20)).max() <= np.cos(0.3))
        True
    """
    random, x = _generator(key), np.zeros((n, d))
    for i in range(n):
        for _ in range(_TRIALS):
            candidate = random.normal(size=d)
            x[i] = candidate / np.linalg.norm(candidate)
            if not i or np.max(x[:i] @ x[i]) <= np.cos(distance):
                break
        else:
            raise InvalidInputError(
                f"`poisson:{distance:g}` found room for {i} tokens only: lower `n`, or "
                "the distance."
            )
    return jnp.asarray(x)


@clouds.register("polygon")
def polygon(
    n: int, d: int, vertices: float | None = None, *, key: PRNGKey
) -> Float[Array, "n d"]:
    """Vertices of a regular polygon in the first two axes, in turn; `n` by default.

    Examples:
        >>> from meanfield.measures.clouds.sphere import polygon
        >>> print(polygon(4, 2, key=jax.random.key(0)).round(6) + 0.0)
        [[ 1.  0.]
         [ 0.  1.]
         [-1.  0.]
         [ 0. -1.]]
    """
    del key
    _check(d >= 2, f"The cloud `polygon` needs d ≥ 2; got d = {d}.")
    count = n if vertices is None else vertices
    _check(
        count >= 1 and count == int(count),
        f"The number of vertices must be whole, at least 1; got {count:g}.",
    )
    angles = 2 * np.pi * (np.arange(n) % int(count)) / count
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return jnp.asarray(np.pad(circle, [(0, 0), (0, d - 2)]))


@clouds.register("antipodal")
def antipodal(
    n: int, d: int, share: float = 0.5, *, key: PRNGKey
) -> Float[Array, "n d"]:
    """A share of the tokens at the first axis, and the others opposite.

    Examples:
        >>> from meanfield.measures.clouds.sphere import antipodal
        >>> print(antipodal(4, 2, 0.25, key=jax.random.key(0))[:, 0])
        [ 1. -1. -1. -1.]
    """
    del key
    _check(0 <= share <= 1, f"The share must be between 0 and 1; got {share:g}.")
    signs = np.where(np.arange(n) < round(share * n), 1.0, -1.0)
    return jnp.asarray(signs[:, None] * np.eye(d)[0])


def _generator(key: PRNGKey) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


def _check(condition: object, message: str) -> None:
    if not condition:
        raise InvalidInputError(message)
