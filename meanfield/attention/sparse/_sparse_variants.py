"""Registered variants of sparse Sinkhorn attention."""

from meanfield._typing import Numbers
from meanfield.attention._attention import Attention, variant
from meanfield.attention._options import expand_options
from meanfield.scores import Dot

from ._mixture import CausalSparseMixture, SparseMixture
from ._sortcut import SortCut
from ._sparse import CausalSparse, Sparse
from ._sparse_options import OrderedOptions, SparseOptions

COST = r"$nb + n^2/b + N_k(n/b)^2$ in blocks of $b$ tokens"


@variant("sparse-sinkhorn", cost=COST)
@expand_options
def sparse_sinkhorn(
    Q: Numbers, K: Numbers, V: Numbers, *, options: OrderedOptions
) -> Attention:
    r"""Tokens attend to their block and to the block that a network sorts to it.

    The sequence is divided, in the order of positions, into $N_B$ blocks. From the sums
    $X'$ of the tokens in each block, a network computes scores: $X'W_B$, or
    $\sigma(\sigma(X'W_P)W_B)$. The balanced scores are the matrix that sorts blocks.
    The attention depends on the order of tokens. So it does not commute with
    permutations, and is not defined on Gaussians or grids.
    Source: tay2020, sections 3.1 and 3.2, corrected by ERRATA T1, T2, T6, T7, T8.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the matrix that sorts blocks.

    Raises:
        InvalidInputError: if shapes do not match, or an option is invalid.
    """
    score = Dot(Q, K, options.epsilon)
    sorting = options.sorting(score.Q)
    return Attention(score, Sparse(sorting), V)


@variant("sparse-sinkhorn-causal", cost=COST)
@expand_options
def sparse_sinkhorn_causal(
    Q: Numbers, K: Numbers, V: Numbers, *, options: SparseOptions
) -> Attention:
    r"""Causal variant of `sparse-sinkhorn`, in which no token depends on later tokens.

    The scores of a block are computed from the sum of all tokens up to its first token,
    and a block is sorted only to itself and to later blocks. When a row is balanced,
    the sums over columns end at this row; with the published balancing, tokens depend
    on later tokens. Source: tay2020, section 3.3; ERRATA T3, T5; new:N5.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the matrix that sorts blocks.

    Raises:
        InvalidInputError: if shapes do not match, or an option is invalid.
    """
    score = Dot(Q, K, options.epsilon)
    return Attention(score, CausalSparse(options.causal(score.Q)), V)


@variant("sparse-sinkhorn-mixture", cost=f"that of `softmax`, and {COST}")
@expand_options
def sparse_sinkhorn_mixture(
    Q: Numbers, K: Numbers, V: Numbers, *, options: OrderedOptions
) -> Attention:
    r"""The sum of `sparse-sinkhorn` attention and softmax attention over all tokens.

    Source: tay2020, section 3.2.3.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the matrix that sorts blocks.

    Raises:
        InvalidInputError: if shapes do not match, or an option is invalid.
    """
    score = Dot(Q, K, options.epsilon)
    sorting = options.sorting(score.Q)
    return Attention(score, SparseMixture(sorting), V)


@variant("sparse-sinkhorn-causal-mixture", cost=f"that of `softmax`, and {COST}")
@expand_options
def sparse_sinkhorn_causal_mixture(
    Q: Numbers, K: Numbers, V: Numbers, *, options: SparseOptions
) -> Attention:
    r"""The sum of `sparse-sinkhorn-causal` attention and causal softmax attention.

    Source: tay2020, sections 3.2.3 and 3.3.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the matrix that sorts blocks.

    Raises:
        InvalidInputError: if shapes do not match, or an option is invalid.
    """
    score = Dot(Q, K, options.epsilon)
    return Attention(score, CausalSparseMixture(options.causal(score.Q)), V)


@variant("sortcut", cost=r"$nbc + n^2/b + N_k(n/b)^2$ for a budget of $c$ blocks")
@expand_options
def sortcut(
    Q: Numbers, K: Numbers, V: Numbers, *, budget: int = 1, options: OrderedOptions
) -> Attention:
    r"""All tokens attend to the first blocks of the sorted sequence.

    Source: tay2020, section 3.4.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        budget: number of blocks that are kept.
        options: options of the matrix that sorts blocks.

    Raises:
        InvalidInputError: if shapes do not match, or an option is invalid.
    """
    score = Dot(Q, K, options.epsilon)
    sorting = options.sorting(score.Q)
    return Attention(score, SortCut(sorting, budget), V)
