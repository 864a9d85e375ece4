"""How many clouds are summed over side by side: as many as a core's cache holds.

What a sum over few tokens takes besides its arithmetic is shared by all that are taken
in one call. But many at once wait for the slowest among them, and leave the cache:
their number follows from the block that sums over a large cloud are cut into.
"""

from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
from typing_extensions import override

from ._gaussian import Gaussian
from ._measure import AbstractMeasure
from ._points import Points
from ._reader import AbstractReader
from .reductions import AbstractReduction, Beside, Blocked, Dense

M = TypeVar("M", bound=AbstractMeasure)

SHARE = 4  # of a block, so 1 MB on a CPU. Measured: 16 to 32 clouds of 64 tokens


class CloudsAbreast(AbstractReader[int]):
    """How many clouds like this one, or like those of a stack, go side by side.

    None of clouds that are larger, or interpolated, or beside others already, and of
    other measures.
    """

    @override
    def check(self, mu: AbstractMeasure) -> None:
        del mu  # stacks are what it is about

    @override
    def of_points(self, mu: Points) -> int:
        n, d = mu.tokens.x.shape[-2:]
        room = _numbers(mu.reduction, mu.tokens.x.dtype) // SHARE
        count = room // (n * (n + d))
        return count if count > 1 else 0

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> int:
        return 0

    @override
    def of_grid(self, mu: AbstractMeasure) -> int:
        return 0

    @override
    def of_gaussian(self, mu: Gaussian) -> int:
        return 0

    @override
    def of_facing(self, mu: AbstractMeasure) -> int:
        return 0


def beside(mu: M) -> M:
    """The same measure beside others: what sums over a small cloud are to know.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import beside
        >>> type(beside(Points.uniform(jnp.zeros((8, 2)))).reduction).__name__
        'Beside'
    """
    if not (isinstance(mu, Points) and isinstance(mu.reduction, Blocked)):
        return mu
    if not clouds_abreast(mu):
        return mu
    return eqx.tree_at(lambda cloud: cloud.reduction, mu, Beside(mu.reduction))


def _numbers(how: AbstractReduction, dtype: jnp.dtype) -> int:
    """Numbers of a block; none where sums are interpolated."""
    how = Blocked() if isinstance(how, Dense) else how
    if not isinstance(how, Blocked):
        return 0
    block = how.shape(dtype)
    return block.keys * block.queries


clouds_abreast = CloudsAbreast()
