"""Registry of masks, which select or weigh the keys of a query by their positions."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._registry import Registry, nearest_name
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.scores import Alibi, BlockCausal, BlockLocal, Fixed, Strided, causal

ROUNDINGS = 2  # rounding error of a difference of two positions, in units of eps
Mask = Callable[[Array, Array], Bool[Array, "..."]]
masks: Registry[Mask] = Registry("mask")


masks.register("causal")(causal)


class Strict(eqx.Module):
    """Mask by which a token sees earlier tokens only; the first token stands still.

    Examples:
        >>> from meanfield.dynamics import masks
        >>> s = jnp.array([0.0, 0.5, 1.0])
        >>> print(masks["strict"](s[:, None], s[None, :]))
        [[False False False]
         [ True False False]
         [ True  True False]]
    """

    hides_later: ClassVar[bool] = True

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        return key < query


masks.register("strict")(Strict())


class Window(eqx.Module):
    r"""Window: $s$ sees $t$ if $0 \leq s - t \leq w$.

    A token sees tokens at most `width` before it, and no later ones.

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

# Decays are masks with a rate.
decays: Registry[Callable[[float], Mask]] = Registry("decay")
decays.register("alibi")(Alibi)


@decays.register("alibi-unnormalised")
def unnormalised_alibi(rate: float) -> Alibi:
    """Mask `alibi` whose weights are not rescaled, as if they were in the scores."""
    return Alibi(rate, is_normalised=False)


def mask_of(name: str) -> Mask:
    """The mask with this name, with its width or its rate, as `window:1/8`.

    Raises:
        UnknownNameError: if no mask or pattern has that name.
        InvalidInputError: if a width or a rate is not positive.

    Examples:
        >>> from meanfield.dynamics import mask_of
        >>> mask_of("window:1/8")
        Window(width=0.125)
    """
    kind, _, number = name.partition(":")
    if kind in patterns:
        rule = "WIDTH is a positive share of the sequence"
        return patterns[kind](_positive_number(kind, number, rule))
    if kind in decays:
        return decays[kind](_positive_number(kind, number, "RATE is positive"))
    if name in masks:
        return masks[name]
    names = [*masks, *(f"{name}:WIDTH" for name in patterns)]
    names += [f"{name}:RATE" for name in decays]
    nearest = nearest_name(name, names)
    hint = f"did you mean `{nearest}`? " if nearest else ""
    raise UnknownNameError(
        f"There is no mask `{name}`; {hint}known: {', '.join(names)}."
    )


def _positive_number(kind: str, text: str, rule: str) -> float:
    """The number of a mask, read from a string such as `0.25` or `2/7`."""
    try:
        number = float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        number = math.nan
    if not number > 0:
        raise InvalidInputError(
            f"The mask `{kind}` must be written `{kind}:{rule.split()[0]}`, where "
            f"{rule}; got `{kind}:{text}`."
        )
    return number
