"""The registered variants of sparse Sinkhorn attention."""

from meanfield._typing import Numbers, PRNGKey, Scalar
from meanfield.attention._attention import Attention, variant
from meanfield.scores import Dot

from ._coupling import CausalSparse, Sparse
from ._mixture import SparseMixture
from ._recipe import PASSES, Law, Recipe
from ._sortcut import SortCut

COST = r"$nb + n^2/b + N_k(n/b)^2$ in blocks of $b$ tokens"


@variant("sparse-sinkhorn", cost=COST)
def sparse_sinkhorn(  # noqa: PLR0913 (what the literature gives it)
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    blocks: int | None = None,
    W_B: Law = "normal",
    W_P: Law | None = None,
    temperature: Scalar = 1.0,
    noise: Scalar = 0.0,
    passes: int = PASSES,
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
        blocks: $N_B$; four, or as `W_B` or `order` has it.
        W_B: rows of $N_B$ numbers, or the law `normal[:SCALE]`.
        W_P: the matrix of a layer before; none if `None`.
        temperature: $\tau$; as it tends to zero, the matrix becomes a permutation.
        noise: the scale of Gumbel noise, drawn once.
        passes: $N_k$, of the balancing; with none, rows alone are divided.
        order: blocks in this order, such as `[2, 0, 1]`, and no network.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    recipe = Recipe(blocks, W_B, W_P, temperature, noise, passes, order)
    sorting = recipe.sorting(score.Q, key)
    return Attention(score, Sparse(sorting), V)


@variant("sparse-sinkhorn-causal", cost=COST)
def sparse_sinkhorn_causal(  # noqa: PLR0913 (what the literature gives it)
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    blocks: int | None = None,
    W_B: Law = "normal",
    W_P: Law | None = None,
    temperature: Scalar = 1.0,
    noise: Scalar = 0.0,
    passes: int = PASSES,
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
        blocks: $N_B$; four, or as `W_B` has it.
        W_B: rows of $N_B$ numbers, or the law `normal[:SCALE]`.
        W_P: the matrix of a layer before; none if `None`.
        temperature: $\tau$.
        noise: the scale of Gumbel noise, drawn once.
        passes: $N_k$, of the balancing; with none, rows alone are divided.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    recipe = Recipe(blocks, W_B, W_P, temperature, noise, passes)
    return Attention(score, CausalSparse(recipe.causal(score.Q, key)), V)


@variant("sparse-sinkhorn-mixture", cost=f"that of `softmax`, and {COST}")
def sparse_sinkhorn_mixture(  # noqa: PLR0913 (what the literature gives it)
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    blocks: int | None = None,
    W_B: Law = "normal",
    W_P: Law | None = None,
    temperature: Scalar = 1.0,
    noise: Scalar = 0.0,
    passes: int = PASSES,
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
        blocks: $N_B$; four, or as `W_B` or `order` has it.
        W_B: rows of $N_B$ numbers, or the law `normal[:SCALE]`.
        W_P: the matrix of a layer before; none if `None`.
        temperature: $\tau$.
        noise: the scale of Gumbel noise, drawn once.
        passes: $N_k$, of the balancing; with none, rows alone are divided.
        order: blocks in this order, such as `[2, 0, 1]`, and no network.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    recipe = Recipe(blocks, W_B, W_P, temperature, noise, passes, order)
    sorting = recipe.sorting(score.Q, key)
    return Attention(score, SparseMixture(sorting), V)


@variant("sortcut", cost=r"$nbc + n^2/b + N_k(n/b)^2$ for a budget of $c$ blocks")
def sortcut(  # noqa: PLR0913 (what the literature gives it)
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    key: PRNGKey | None = None,
    budget: int = 1,
    blocks: int | None = None,
    W_B: Law = "normal",
    W_P: Law | None = None,
    temperature: Scalar = 1.0,
    noise: Scalar = 0.0,
    passes: int = PASSES,
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
        blocks: $N_B$; four, or as `W_B` or `order` has it.
        W_B: rows of $N_B$ numbers, or the law `normal[:SCALE]`.
        W_P: the matrix of a layer before; none if `None`.
        temperature: $\tau$.
        noise: the scale of Gumbel noise, drawn once.
        passes: $N_k$, of the balancing; with none, rows alone are divided.
        order: blocks in this order, such as `[2, 0, 1]`, and no network.

    Raises:
        InvalidInputError: if shapes do not fit, or a number is none.
    """
    score = Dot(Q, K, epsilon)
    recipe = Recipe(blocks, W_B, W_P, temperature, noise, passes, order)
    sorting = recipe.sorting(score.Q, key)
    return Attention(score, SortCut(sorting, budget), V)
