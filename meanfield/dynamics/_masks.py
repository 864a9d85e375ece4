"""Masks by their names: who sees whom, by positions."""

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

ROUNDINGS = 2  # of 1, by which a difference of two positions may be off
Mask = Callable[[Array, Array], Bool[Array, "..."]]
masks: Registry[Mask] = Registry("mask")


masks.register("causal")(causal)


class Window(eqx.Module):
    """A token sees those at most `width` before it, and none after.

    Attributes:
        width: a length in position, of the whole sequence's 1.

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
        slack = ROUNDINGS * jnp.finfo(query.dtype).eps  # of positions up to 1
        return (key <= query) & (query - key <= self.width + slack)


patterns: Registry[Callable[[float], Mask]] = Registry("pattern")  # of a width
patterns.register("window")(Window)
patterns.register("block-local")(BlockLocal)
patterns.register("strided")(Strided)
patterns.register("fixed")(Fixed)
patterns.register("block-causal")(BlockCausal)


def mask_of(name: str) -> Mask:
    """The mask of a name, or of the name of a pattern and a width, `window:1/8`.

    Raises:
        UnknownNameError: if there is none of that name.
        InvalidInputError: if a pattern has no positive width.

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
    known = [*masks, *(f"{pattern}:WIDTH" for pattern in patterns)]
    raise UnknownNameError(f"There is no mask `{name}`; {suggestion(name, known)}")


def _width(kind: str, text: str) -> float:
    """The width of a mask: a number, or a fraction such as 2/7."""
    try:
        width = float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        width = math.nan
    if not width > 0:
        raise InvalidInputError(
            f"The mask `{kind}` is `{kind}:WIDTH`, a positive share of the sequence; "
            f"got `{kind}:{text}`."
        )
    return width
