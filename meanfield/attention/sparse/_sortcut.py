"""SortCut, where all queries attend to the first blocks of the sorted sequence."""

import equinox as eqx
import jax
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.errors import InvalidInputError
from meanfield.measures import Keys, Points, use_exact_sums
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._sorted_tokens import AbstractSortedMean, require_unmasked
from ._sorting import AbstractSorting
from ._sparse import AbstractSparse, sort_tokens


class SortCut(AbstractSparse):
    r"""$\kappa_\mu = \mathrm{softmax}(s(x, \psi))$ on the first blocks of $\psi = RX$.

    If the sorting is a permutation and all blocks are kept, this is softmax attention.
    Source: tay2020, section 3.4.

    Attributes:
        sorting: the sorting, which determines $R$.
        budget: number of sorted blocks that are kept.

    Raises:
        InvalidInputError: if `budget` is not between 1 and the number of blocks.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Attention
        >>> from meanfield.attention.sparse import FixedSorting, SortCut
        >>> from meanfield.scores import Dot
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> cut = SortCut(FixedSorting([1, 0]), budget=1)
        >>> mu = Points.uniform([[1.0], [3.0]], position=[0.5, 1.0])
        >>> print(Attention(Dot(zero, zero), cut, one).field(0.0, mu)(mu.tokens))
        [[3.]
         [3.]]
    """

    sorting: AbstractSorting
    budget: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        n_blocks, count = self.sorting.n_blocks, self.budget
        is_count = isinstance(count, int) and not isinstance(count, bool)
        if not (is_count and 1 <= count <= n_blocks):
            raise InvalidInputError(
                "`budget` counts the blocks that are kept and must be from 1 to "
                f"{n_blocks}; got {count}."
            )

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> "CutMean":
        sorted_tokens = sort_tokens(self.sorting, mu)
        return CutMean(sorted_tokens, require_unmasked(score), self.budget)


class CutMean(AbstractSortedMean):
    r"""$\mathrm{Softmax}(s(x, \psi_{[:c]}))\,\psi_{[:c]}$ over the first $c$ blocks.

    Attributes:
        sorted_tokens: $\psi$.
        score: $s$.
        budget: $c$.
    """

    score: AbstractScore
    budget: int = eqx.field(static=True)

    @override
    @compile_once
    def average(
        self, tokens: Tokens, values: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        mu = self.sorted_tokens.blocks.mu
        states = self._first_blocks(self.sorted_tokens.means(mu.safe_tokens.x))
        logs = self._first_blocks(self.sorted_tokens.log_masses)
        keys = Keys(
            Tokens(states), logs, self._first_blocks(self.sorted_tokens.means(values))
        )
        return use_exact_sums(mu).reduction.log_mean(self.score, tokens, keys)[0]

    def _first_blocks(
        self, values: Float[Array, "b w ..."]
    ) -> Float[Array, "kept ..."]:
        return jax.lax.collapse(values[: self.budget], 0, 2)
