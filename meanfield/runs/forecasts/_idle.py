"""Draws of which nothing is drawn."""

from collections.abc import Sequence

import equinox as eqx

from meanfield.errors import InvalidInputError
from meanfield.runs.building._build import Member
from meanfield.runs.representations import representations
from meanfield.spec import RunSpec


def refuse_equal_draws(spec: RunSpec, draws: Sequence[Member]) -> None:
    """Refuses draws of a density of which nothing is drawn.

    Raises:
        InvalidInputError: if the first two are the same.
    """
    if len(draws) < 2 or representations[spec.measure].is_drawn(spec):
        return
    first, second = ((m.dynamics, m.measure) for m in draws[:2])
    if eqx.tree_equal(first, second):
        raise InvalidInputError(
            f"All {spec.draws} `draws` are the same density under the same attention: "
            "leave `draws` out, or draw something (`--A normal`, `--init mixture`)."
        )
