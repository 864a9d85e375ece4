"""Registry of masks, which select the keys of a query by their positions."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._registry import Registry, suggestion
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.scores import BlockCausal, BlockLocal, Fixed, Strided, causal

ROUNDINGS = 2  # rounding error of a difference of two positions, in units of eps
Mask = Callable[[Array, Array], Bool[Array, "..."]]
masks: Registry[Mask] = Registry("mask")


masks.register("causal")(causal)


class Window(eqx.Module):
    """Mask by which a token sees tokens at most `width` before it, and no later ones.

    Attributes:
        width: the width in units of position; the whole sequence has length 1.

    Examples:
        >>> from meanfield.dynamics import Window
        >>> s = jnp.array([0.0, 0.5, 1.0])
        >>> print(Window(0.5)(s[:, None], s[None, :]))
        [[ True False False]
         [ True  True False]
         [False  True  True]]
    """

    width: float
    hides_later: ClassVar[bool] = True

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        slack = ROUNDINGS * jnp.finfo(query.dtype).eps  # valid for positions up to 1
        return (key <= query) & (query - key <= self.width + slack)


# Patterns are masks with a width.
patterns: Registry[Callable[[float], Mask]] = Registry("pattern")
patterns.register("window")(Window)
patterns.register("block-local")(BlockLocal)
patterns.register("strided")(Strided)
patterns.register("fixed")(Fixed)
patterns.register("block-causal")(BlockCausal)


def mask_of(name: str) -> Mask:
    """The mask with this name, or a pattern with its width, such as `window:1/8`.

    Raises:
        UnknownNameError: if no mask or pattern has that name.
        InvalidInputError: if the width of a pattern is not positive.

    Examples:
        >>> from meanfield.dynamics import mask_of
        >>> mask_of("window:1/8")
        Window(width=0.125)
    """
    kind, _, width = name.partition(":")
    if kind in patterns:
        return patterns[kind](_width(kind, width))
    if name in masks:
        return masks[name]
    names = [*masks, *(f"{pattern}:WIDTH" for pattern in patterns)]
    raise UnknownNameError(f"There is no mask `{name}`; {suggestion(name, names)}")


def _width(kind: str, text: str) -> float:
    """The width of a pattern, read from a string such as `0.25` or `2/7`."""
    try:
        width = float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        width = math.nan
    if not width > 0:
        raise InvalidInputError(
            f"The mask `{kind}` must be written `{kind}:WIDTH`, where WIDTH is a "
            f"positive share of the sequence; got `{kind}:{text}`."
        )
    return width
