"""Images as tokens, and how they are disturbed while networks learn."""

import jax
import jax.numpy as jnp
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey


def patches_of(
    image: Float[Array, "side side"], p: int
) -> Float[Array, "patches pixels"]:
    """The squares of `p` pixels that an image is cut into, row by row."""
    m = image.shape[0] // p
    return image.reshape(m, p, m, p).swapaxes(1, 2).reshape(m * m, p * p)


def moved(
    image: Float[Array, "side side"], key: PRNGKey, most: int, black: float
) -> Float[Array, "side side"]:
    """An image moved by up to `most` whole pixels in each direction, over black."""
    wide = jnp.pad(image, most, constant_values=black)
    start = jax.random.randint(key, (2,), 0, 2 * most + 1)
    return jax.lax.dynamic_slice(wide, (start[0], start[1]), image.shape)


def turned(
    image: Float[Array, "side side"], key: PRNGKey, most: float, black: float
) -> Float[Array, "side side"]:
    """An image turned about its middle by up to `most` degrees, over black."""
    angle = jnp.deg2rad(jax.random.uniform(key, (), minval=-most, maxval=most))
    middle = (image.shape[0] - 1) / 2
    row, column = jnp.indices(image.shape, image.dtype) - middle
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    places = [cosine * row - sine * column, sine * row + cosine * column]
    return map_coordinates(image, [p + middle for p in places], order=1, cval=black)
