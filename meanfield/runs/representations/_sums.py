"""Sums over tokens and cells: as they are asked for, of what size, and in words."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax

from meanfield.attention import AbstractCoupling, HardSlices
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractPlanned,
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    Dense,
)
from meanfield.measures.reductions import Ring
from meanfield.measures.reductions.cells import DIMENSIONS

INTERPOLATIONS = {"cells": Cells, "chebyshev": Chebyshev}
INTERPOLATED_FROM = 20_000  # tokens: below, exact sums take no longer than a plan


@dataclass(frozen=True)
class Sums:
    """How sums over tokens are executed, as asked.

    Attributes:
        text: `auto`, say: the value of the key `reduction`.
        tolerance: an error of velocities that steps do not notice.
    """

    text: str
    tolerance: float

    def reduction(self, n: int, d: int) -> AbstractReduction:
        """How sums over `n` tokens in dimension `d` are executed.

        Interpolation is only asked for here: the flow plans it, or finds that exact
        sums cost less.

        Raises:
            InvalidInputError: if the text is none of `auto`, `dense`, `blocked[:SIZE]`,
                `cells[:TOLERANCE]`, `chebyshev[:TOLERANCE]`.
        """
        kind, _, argument = self.text.partition(":")
        number = _positive(argument)
        if kind == "auto" and not argument:
            pays = n >= INTERPOLATED_FROM and d <= DIMENSIONS
            return self._interpolated if pays else Blocked()
        if kind == "dense" and not argument:
            return Dense()
        if kind == "blocked" and (not argument or (number and number.is_integer())):
            return Blocked(int(number) if number else None)
        if kind in INTERPOLATIONS and (not argument or (number and number < 1)):
            return INTERPOLATIONS[kind](number or self.tolerance)
        raise InvalidInputError(
            "`reduction` must be `auto`, `dense`, `blocked`, `blocked:SIZE`, `cells`, "
            "`cells:TOLERANCE`, `chebyshev` or `chebyshev:TOLERANCE`, a tolerance "
            f"between 0 and 1; got `{self.text}`."
        )

    @property
    def _interpolated(self) -> AbstractReduction:
        """Cells, whose error is bounded; where these are not worth it, nodes."""
        return Cells(self.tolerance, otherwise=Chebyshev(self.tolerance))


class Size(NamedTuple):
    """How much of a measure there is.

    Attributes:
        n: tokens; 0 without any.
        cells: of a grid, those of all layers; 0 without one.
        d: the dimension of the space.
        how: how sums over the tokens or cells are executed; `None` without sums.
    """

    n: int
    cells: int
    d: int
    how: AbstractReduction | None


def named(how: AbstractReduction | None) -> str:
    """A way to execute sums, in a word or two."""
    if how is None:
        return "none"
    if isinstance(how, Cells) and how.layout is not None:
        counts = " × ".join(map(str, how.layout.cells))
        return f"cells, {counts} of {how.layout.nodes} nodes an axis"
    if isinstance(how, Chebyshev) and how.counts is not None:
        return f"chebyshev, {' × '.join(map(str, how.counts))} nodes"
    if isinstance(how, AbstractPlanned):
        return named(how.otherwise)
    if isinstance(how, Ring):
        return f"{named(how.alone)}, in a ring of {how.mesh.size}"
    size = how.size if isinstance(how, Blocked) else None
    names = {Blocked: "blocked", Dense: "dense"}
    name = next((n for kind, n in names.items() if isinstance(how, kind)), "separable")
    return name if size is None else f"{name}:{size}"


def describe_sums(how: AbstractReduction | None, moves: AbstractDynamics) -> str:
    """The same for what moves tokens: nothing is summed where they are only sorted."""
    return "none" if only_sorts(moves) else named(how)


def only_sorts(dynamics: AbstractDynamics) -> bool:
    """Whether all of its attentions match ranks, which sums nothing over pairs."""
    is_coupling = lambda part: isinstance(part, AbstractCoupling)
    parts = filter(is_coupling, jax.tree.leaves(dynamics, is_leaf=is_coupling))
    sorts = [isinstance(coupling, HardSlices) for coupling in parts]
    return bool(sorts) and all(sorts)


def _positive(text: str) -> float | None:
    """A finite positive number; `None` if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None
