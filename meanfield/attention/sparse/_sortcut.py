"""SortCut: all queries look at the first blocks of the sorted sequence."""

import equinox as eqx
import jax
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.errors import InvalidInputError
from meanfield.measures import Keys, Points, exactly
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._sorted import AbstractSortedMean, unmasked
from ._sorting import AbstractSorting
from ._sparse import AbstractSparse, in_order


class SortCut(AbstractSparse):
    r"""$\kappa_\mu = \mathrm{softmax}(s(x, \psi))$ over first blocks of $\psi = RX$.

    With all blocks and a permutation it is softmax attention. Source: tay2020, section
    3.4.

    Attributes:
        sorting: gives $R$.
        budget: how many sorted blocks are kept.

    Raises:
        InvalidInputError: if there are not so many.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Attention
        >>> from meanfield.attention.sparse import Reordered, SortCut
        >>> from meanfield.scores import Dot
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> cut = SortCut(Reordered([1, 0]), budget=1)
        >>> mu = Points.uniform([[1.0], [3.0]], position=[0.5, 1.0])
        >>> print(Attention(Dot(zero, zero), cut, one).field(0.0, mu)(mu.tokens))
        [[3.]
         [3.]]
    """

    sorting: AbstractSorting
    budget: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        most, count = self.sorting.n_blocks, self.budget
        is_count = isinstance(count, int) and not isinstance(count, bool)
        if not (is_count and 1 <= count <= most):
            raise InvalidInputError(
                f"`budget` counts blocks that are kept, from 1 to {most}; got {count}."
            )

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> "CutMean":
        ordered = in_order(self.sorting, mu)
        return CutMean(ordered, unmasked(score), self.budget)


class CutMean(AbstractSortedMean):
    r"""$\mathrm{Softmax}(s(x, \psi_{[:c]}))\,\psi_{[:c]}$, $c$ blocks.

    Attributes:
        ordered: $\psi$.
        score: $s$.
        budget: $c$.
    """

    score: AbstractScore
    budget: int = eqx.field(static=True)

    @override
    @compile_once
    def averaged(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        mu = self.ordered.blocks.mu
        states = self._kept(self.ordered.means(mu.counted.x))
        logs = self._kept(self.ordered.log_masses)
        keys = Keys(Tokens(states), logs, self._kept(self.ordered.means(values)))
        return exactly(mu).reduction.log_mean(self.score, tokens, keys)[0]

    def _kept(self, values: Float[Array, "b w ..."]) -> Float[Array, "kept ..."]:
        return jax.lax.collapse(values[: self.budget], 0, 2)
