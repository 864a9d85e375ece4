"""Keys that would do nothing for a density, though they go with others."""

from collections.abc import Sequence

import equinox as eqx

from meanfield.errors import InvalidInputError
from meanfield.spec import RunSpec

from ._build import Member


def refuse_number(spec: RunSpec) -> None:
    """Refuses a number of tokens for a density.

    Raises:
        InvalidInputError: if `n` is given.
    """
    if spec.measure == "grid" and "n" in spec.model_fields_set:
        raise InvalidInputError(
            "`n` counts tokens, and a density has none: leave it out (`cells` says how "
            "finely a grid is cut)."
        )


def refuse_equal_draws(spec: RunSpec, found: Sequence[Member]) -> None:
    """Refuses draws of a density of which nothing is drawn.

    Raises:
        InvalidInputError: if the first two are the same.
    """
    if spec.measure != "grid" or len(found) < 2:
        return
    first, second = ((each.dynamics, each.measure) for each in found[:2])
    if eqx.tree_equal(first, second):
        raise InvalidInputError(
            f"All {spec.draws} `draws` are the same density under the same attention: "
            "leave `draws` out, or draw something (`--A normal`, `--init mixture`)."
        )
