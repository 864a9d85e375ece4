r"""Couplings of tokens with the block of tokens that is sorted to theirs."""

import jax.numpy as jnp
from jaxtyping import Array, Bool
from typing_extensions import override

from meanfield.attention._coupling import AbstractCoupling
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import AbstractScore

from ._blocks import Blocks
from ._local import SparseMean, everywhere, quadratic, so_far
from ._sorted import Sorted
from ._sorting import AbstractSorting, CausallyLearned


class AbstractSparse(AbstractCoupling):
    """A coupling that cuts the sequence into blocks, and sorts these."""

    @property
    @override
    def reads_order(self) -> bool:
        return True

    @override
    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Always: $\bar y$ is a mean of means of tokens, or the sum of two."""
        return jnp.ones((), bool)


class Sparse(AbstractSparse):
    r"""$\kappa_\mu = \mathrm{softmax}(s(x, \psi) + s(x, y))$ in a block, $\psi = RX$.

    A query in block $i$ sees the places of its block alone; at each it is scored with
    the key that stands there and with the one that the matrix $R$ sorts there, and
    reads the sorted value. Source: tay2020, section 3.2, with $-\infty$ in place of
    the zeros outside of the block, which has $b$ tokens (ERRATA T7, T8).

    Attributes:
        sorting: gives $R$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Attention, plans
        >>> from meanfield.attention.sparse import Reordered, Sparse
        >>> from meanfield.scores import Dot
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> attention = Attention(Dot(zero, zero), Sparse(Reordered([1, 0])), one)
        >>> s = jnp.array([0.25, 0.5, 0.75, 1.0])
        >>> mu = Points.uniform([[1.0], [2.0], [3.0], [5.0]], position=s)
        >>> print(attention.field(0.0, mu)(mu.tokens).ravel())  # means of the others
        [4.  4.  1.5 1.5]
    """

    sorting: AbstractSorting

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> SparseMean:
        return SparseMean(in_order(self.sorting, mu), quadratic(score), everywhere)


class CausalSparse(AbstractSparse):
    r"""$\kappa_\mu = \mathrm{softmax}(s(x, \psi) + s(x, y))$ over places up to $x$'s.

    As `Sparse`, with a sorting that takes no later block to an earlier one, and rows
    that do not see later rows. The published one leaks (tay2020, section 3.3; ERRATA
    T3); this has no dependence on later tokens at all (new:N5).

    Attributes:
        sorting: gives $R$, a lower triangle.

    Examples:
        >>> from meanfield import Points, attentions
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> mu = Points.uniform([[1.0], [3.0]], position=[0.5, 1.0])
        >>> causal = attentions["sparse-sinkhorn-causal"](zero, zero, one, blocks=1)
        >>> print(causal.field(0.0, mu)(mu.tokens).ravel())  # running means
        [1. 2.]
    """

    sorting: CausallyLearned

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> SparseMean:
        return SparseMean(in_order(self.sorting, mu), quadratic(score), so_far)


def in_order(sorting: AbstractSorting, mu: Points) -> Sorted:
    """The tokens of a measure after a sorting of its blocks."""
    blocks = Blocks(mu, sorting.n_blocks)
    return Sorted(blocks, sorting.plan(blocks))
