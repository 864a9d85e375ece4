r"""Couplings in which a token attends to the keys that are sorted to its own block."""

import jax.numpy as jnp
from jaxtyping import Array, Bool
from typing_extensions import override

from meanfield.attention._coupling import AbstractCoupling
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import AbstractScore

from ._blocks import Blocks
from ._local import SparseMean, require_quadratic, sees_block, sees_past
from ._sorted_tokens import SortedTokens
from ._sorting import AbstractSorting, CausalLearnedSorting


class AbstractSparse(AbstractCoupling):
    """A coupling that divides the sequence into blocks and sorts them."""

    @property
    @override
    def reads_order(self) -> bool:
        return True

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Always true: $\bar y$ averages means of tokens, or adds two averages."""
        return jnp.ones((), bool)


class Sparse(AbstractSparse):
    r"""$\kappa_\mu = \mathrm{softmax}(s(x, \psi) + s(x, y))$ in a block, $\psi = RX$.

    A query sees only the slots of its own block. Its score for a slot is the sum of two
    scores: with the key in the slot, and with the key that $R$ sorts to the slot. The
    value comes from the sorted key. Source: tay2020, section 3.2, with corrections: the
    block has $b$ tokens, and scores outside it are $-\infty$, not zero (ERRATA T7,
    T8).

    Attributes:
        sorting: the sorting, which determines $R$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Attention, plans
        >>> from meanfield.attention.sparse import FixedSorting, Sparse
        >>> from meanfield.scores import Dot
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> attention = Attention(Dot(zero, zero), Sparse(FixedSorting([1, 0])), one)
        >>> s = jnp.array([0.25, 0.5, 0.75, 1.0])
        >>> mu = Points.uniform([[1.0], [2.0], [3.0], [5.0]], position=s)
        >>> print(attention.field(0.0, mu)(mu.tokens).ravel())  # means of the others
        [4.  4.  1.5 1.5]
    """

    sorting: AbstractSorting

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> SparseMean:
        return SparseMean(
            sort_tokens(self.sorting, mu), require_quadratic(score), sees_block
        )


class CausalSparse(AbstractSparse):
    r"""$\kappa_\mu = \mathrm{softmax}(s(x, \psi) + s(x, y))$ up to the slot of $x$.

    Unlike in `Sparse`, no block is sorted to an earlier one, and no row depends on
    later rows. So no token depends on later tokens (new:N5). In the published version,
    tokens do (tay2020, section 3.3; ERRATA T3).

    Attributes:
        sorting: the sorting, which determines the lower triangular matrix $R$.

    Examples:
        >>> from meanfield import Points, attentions
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> mu = Points.uniform([[1.0], [3.0]], position=[0.5, 1.0])
        >>> causal = attentions["sparse-sinkhorn-causal"](zero, zero, one, blocks=1)
        >>> print(causal.field(0.0, mu)(mu.tokens).ravel())  # running means
        [1. 2.]
    """

    sorting: CausalLearnedSorting

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> SparseMean:
        return SparseMean(
            sort_tokens(self.sorting, mu), require_quadratic(score), sees_past
        )


def sort_tokens(sorting: AbstractSorting, mu: Points) -> SortedTokens:
    """Divides a measure into blocks, and returns its tokens in sorted blocks."""
    blocks = Blocks(mu, sorting.n_blocks)
    return SortedTokens(blocks, sorting.plan(blocks))
