"""The registered variants of sparse Sinkhorn attention."""

from meanfield._typing import Numbers, PRNGKey, Scalar
from meanfield.attention._attention import Attention, variant
from meanfield.attention._options import with_keywords
from meanfield.scores import Dot

from ._mixture import SparseMixture
from ._sortcut import SortCut
from ._sparse import CausalSparse, Sparse
from ._sparse_options import SparseOptions

COST = r"$nb + n^2/b + N_k(n/b)^2$ in blocks of $b$ tokens"


@variant("sparse-sinkhorn", cost=COST)
@with_keywords
def sparse_sinkhorn(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    options: SparseOptions,
    order: Numbers | None = None,
) -> Attention:
    r"""Tokens look at their block, and at the one that a network sorts to it.

    The sequence is cut, in the order of positions, into $N_B$ blocks, and a network
    scores the sums of their tokens: $X'W_B$, or $\sigma(\sigma(X'W_P)W_B)$. Balanced,
    the scores are the matrix that sorts blocks. It sees the order of tokens, so it
    does not commute with their permutations, and has no form on Gaussians or grids.
    Source: tay2020, sections 3.1 and 3.2, corrected by ERRATA T1, T2, T6, T7, T8.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides both scores.
        key: of what is drawn; a run draws it from its seed, for each head.
        options: of the matrix that sorts blocks.
        order: blocks in this order, such as `[2, 0, 1]`, and no network.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    sorting = options.sorting(score.Q, key, order)
    return Attention(score, Sparse(sorting), V)


@variant("sparse-sinkhorn-causal", cost=COST)
@with_keywords
def sparse_sinkhorn_causal(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    options: SparseOptions,
) -> Attention:
    r"""As `sparse-sinkhorn`, and no token sees a later one.

    A block is scored by the sum of all tokens up to its first, is sorted to itself and
    later ones, and sums over columns stop at the row that they divide: the dependence
    on later tokens is zero, which that of the published balancing is not.
    Source: tay2020, section 3.3; ERRATA T3, T5; new:N5.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides both scores.
        key: of what is drawn; a run draws it from its seed, for each head.
        options: of the matrix that sorts blocks.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    return Attention(score, CausalSparse(options.causal(score.Q, key)), V)


@variant("sparse-sinkhorn-mixture", cost=f"that of `softmax`, and {COST}")
@with_keywords
def sparse_sinkhorn_mixture(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    options: SparseOptions,
    order: Numbers | None = None,
) -> Attention:
    r"""The sum of `sparse-sinkhorn` and of softmax over all tokens.

    Source: tay2020, section 3.2.3.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides all scores.
        key: of what is drawn; a run draws it from its seed, for each head.
        options: of the matrix that sorts blocks.
        order: blocks in this order, such as `[2, 0, 1]`, and no network.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    sorting = options.sorting(score.Q, key, order)
    return Attention(score, SparseMixture(sorting), V)


@variant("sortcut", cost=r"$nbc + n^2/b + N_k(n/b)^2$ for a budget of $c$ blocks")
@with_keywords
def sortcut(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    budget: int = 1,
    options: SparseOptions,
    order: Numbers | None = None,
) -> Attention:
    r"""All tokens look at the first blocks of the sorted sequence.

    Source: tay2020, section 3.4.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides the scores.
        key: of what is drawn; a run draws it from its seed, for each head.
        budget: how many blocks are kept.
        options: of the matrix that sorts blocks.
        order: blocks in this order, such as `[2, 0, 1]`, and no network.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    sorting = options.sorting(score.Q, key, order)
    return Attention(score, SortCut(sorting, budget), V)
