"""How sums over tokens and cells are executed: settings, sizes and names."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax

from meanfield.attention import AbstractCoupling, HardSlices
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractPlannedReduction,
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    Dense,
)
from meanfield.measures.reductions import Ring, Separable
from meanfield.measures.reductions.cells import DIMENSIONS

INTERPOLATIONS = {"cells": Cells, "chebyshev": Chebyshev}
INTERPOLATION_THRESHOLD = 20_000  # number of tokens below which exact sums are as fast


@dataclass(frozen=True)
class Sums:
    """The settings for sums over tokens.

    Attributes:
        text: the value of the key `reduction`, such as `auto`.
        tolerance: the allowed error of velocities, too small to affect adaptive steps.
    """

    text: str
    tolerance: float

    def reduction(self, n: int, d: int) -> AbstractReduction:
        """How sums over `n` tokens in dimension `d` are executed.

        Interpolation is only requested here. The flow plans it later, or uses exact
        sums if these cost less.

        Raises:
            InvalidInputError: if `text` is none of `auto`, `dense`, `blocked[:SIZE]`,
                `cells[:TOLERANCE]` and `chebyshev[:TOLERANCE]`.
        """
        kind, _, argument = self.text.partition(":")
        number = _positive(argument)
        if kind == "auto" and not argument:
            if n < INTERPOLATION_THRESHOLD or d > DIMENSIONS:
                return Blocked()
            # Interpolation in cells has an error bound, unlike that at Chebyshev nodes.
            return Cells(self.tolerance, fallback=Chebyshev(self.tolerance))
        if kind == "dense" and not argument:
            return Dense()
        if kind == "blocked" and (not argument or (number and number.is_integer())):
            return Blocked(int(number) if number else None)
        if kind in INTERPOLATIONS and (not argument or (number and number < 1)):
            return INTERPOLATIONS[kind](number or self.tolerance)
        raise InvalidInputError(
            "`reduction` must be `auto`, `dense`, `blocked`, `blocked:SIZE`, `cells`, "
            "`cells:TOLERANCE`, `chebyshev` or `chebyshev:TOLERANCE`, with a tolerance "
            f"between 0 and 1; got `{self.text}`."
        )


class Size(NamedTuple):
    """The size of a measure.

    Attributes:
        n: the number of tokens; 0 without tokens.
        cells: the number of cells of a grid, over all layers; 0 without a grid.
        d: the dimension of the space.
        reduction: how sums over the tokens or cells are executed; `None` without sums.
    """

    n: int
    cells: int
    d: int
    reduction: AbstractReduction | None


def reduction_name(reduction: AbstractReduction | None) -> str:
    """A short name for a way to execute sums."""
    if isinstance(reduction, Cells) and reduction.layout is not None:
        counts = " × ".join(map(str, reduction.layout.cells))
        return f"cells, {counts} of {reduction.layout.nodes} nodes an axis"
    if isinstance(reduction, Chebyshev) and reduction.counts is not None:
        return f"chebyshev, {' × '.join(map(str, reduction.counts))} nodes"
    if isinstance(reduction, AbstractPlannedReduction):
        return reduction_name(reduction.fallback)
    if isinstance(reduction, Ring):
        return (
            f"{reduction_name(reduction.local_reduction)}, in a ring of "
            f"{reduction.mesh.size}"
        )
    if isinstance(reduction, Blocked):
        size = "" if reduction.size is None else f":{reduction.size}"
        return f"blocked{size}" + ", by kernels where possible" * reduction.has_kernels
    names = {Dense: "dense", Separable: "separable", type(None): "none"}
    return names.get(type(reduction), type(reduction).__name__.lower())


def describe_sums(
    reduction: AbstractReduction | None, dynamics: AbstractDynamics
) -> str:
    """A short name for how sums are executed; `none` if tokens are only sorted."""
    return "none" if only_sorts(dynamics) else reduction_name(reduction)


def only_sorts(dynamics: AbstractDynamics) -> bool:
    """Whether all attentions match ranks, so that no sums over pairs are needed."""
    is_coupling = lambda part: isinstance(part, AbstractCoupling)
    parts = filter(is_coupling, jax.tree.leaves(dynamics, is_leaf=is_coupling))
    sorts = [isinstance(coupling, HardSlices) for coupling in parts]
    return bool(sorts) and all(sorts)


def _positive(text: str) -> float | None:
    """The finite positive number that a text stands for; `None` if there is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None
