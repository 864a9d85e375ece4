"""Sparse Sinkhorn attention: sums of blocks, and the network that sorts them."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import close, compare, zero_count
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, BLOCKS, D = 24, 6, 3
B = N // BLOCKS
Link = Callable[[jax.Array], jax.Array]


def _tokens(case: Case) -> Array:
    return case.rng("tokens").normal(size=(N, D))


@statement(
    "tay2020:eq-2",
    source="Eq. (2)",
    claim=r"The pooled block is $\psi_P(X)_i = \sum_{iB \leq j < (i+1)B} X_j$: each "
    r"token is counted once.",
    control=("the upper index is one more", {"more": 1}),
)
def pooling(case: Case, *, more: int = 0) -> Checks:
    """Compares the library's sums of 6 blocks of 4 tokens with sums of NumPy slices.

    The total of the sums must equal the sum of all tokens, and no token may be counted
    twice.
    """
    # The control changes `more`, which is added to the upper index of NumPy's sums.
    x = _tokens(case)
    block_sums = ref.block_sums(x, B, more)
    yield close("ψ and the library", block_sums, seq.sums(x, BLOCKS))
    yield close("total", block_sums.sum(axis=0), x.sum(axis=0))
    twice = ref.block_sums(np.eye(N), B, more).sum(axis=0) > 1
    yield zero_count("tokens counted twice", np.sum(twice))


@pooling.register_misprint(
    "T6",
    claim=r"The sum runs from $iB$ to $(i+1)B$, both included.",
    correction=r"It ends before $(i+1)B$: as printed, the first tokens of all blocks "
    r"but one are counted twice, and the last block reads past the end.",
    counterexample="24 random tokens in three dimensions, 6 blocks",
)
def _(case: Case) -> Counterexample:
    last = lambda more: zero_count("places read past the end", max(0, more))
    reading = lambda more: (*pooling(case, more=more), last(more))
    return Counterexample(reading(1), reading(0))


def _relu(z: jax.Array) -> jax.Array:
    return jnp.maximum(z, 0)


@statement(
    "tay2020:eq-4",
    source="Eq. (4)",
    claim=r"With $W_P \in \mathbb{R}^{d\times d}$ and $W_B \in \mathbb{R}^{d\times N_B}"
    r"$ the sorting network $P(X) = \sigma(\sigma(X W_P)W_B)$ maps the $N_B$ pooled "
    r"blocks to a square matrix $R$; for $\sigma$ the positive part $R \geq 0$.",
    control=(
        r"$\sigma$ is the identity",
        {"link": lambda z: z},
        ("negative entries", "R"),
    ),
)
def network(case: Case, *, link: Link = _relu, columns: int = BLOCKS) -> Checks:
    """Compares the library's network on 6 pooled blocks with NumPy products."""
    R, expected = _scores(case, link, columns)
    yield compare("columns of R over rows", R.shape[1] / len(R), "=", 1, why="a count")
    yield zero_count("negative entries", np.sum(R < 0))
    yield close("R", R, expected)


def _scores(case: Case, link: Link, columns: int) -> tuple[Array, Array]:
    """Matrix R of the library, which uses `link`, and of NumPy, which uses ReLU."""
    rng, pools = case.rng("matrices"), ref.block_sums(_tokens(case), B)
    W_P, W_B = rng.normal(size=(D, D)), rng.normal(size=(D, columns))
    R = np.asarray(seq.network(W_P, W_B, link=link)(jnp.asarray(pools)))
    return R, np.maximum(np.maximum(pools @ W_P, 0) @ W_B, 0)


@network.register_misprint(
    "T8",
    claim=r"$W_B$ has as many columns as a block has tokens.",
    correction=r"$W_B \in \mathbb{R}^{d \times N_B}$; with as many columns as tokens "
    r"in a block, $R$ is not square.",
    counterexample="24 random tokens, 6 blocks of 4",
)
def _(case: Case) -> Counterexample:
    square = lambda columns: network(case, columns=columns)[:1]
    return Counterexample(square(B), square(BLOCKS))


@statement(
    "tay2020:eq-5",
    source="Eq. (5), §3.3",
    claim=r"The causal pool $\psi_P(X)_i = \sum_{j=0}^{iB} X_j$ ends with the first "
    r"token of block $i$, and does not depend on later ones.",
    control=("the upper index is one more", {"more": 1}),
)
def causal_pooling(case: Case, *, more: int = 0) -> Checks:
    """Compares the library's causal sums of 6 blocks of 4 tokens with NumPy sums.

    No token after the first token of a block may be in the sum for this block.
    """
    # The control changes `more`, which is added to the upper index of NumPy's sums.
    x = _tokens(case)
    prefix_sums = ref.sums_before(x, B, more)
    reads = ref.sums_before(np.eye(N), B, more) != 0
    later = np.arange(N)[None, :] > B * np.arange(BLOCKS)[:, None]
    yield close("ψ and the library", prefix_sums, seq.sums_so_far(x, BLOCKS))
    yield zero_count("later tokens that are read", np.sum(reads & later))


@causal_pooling.register_misprint(
    "T5",
    claim=r"The sum runs to $i\ell_B + 1$.",
    correction=r"To $i\ell_B$: the token after it is the second of block $i$, to "
    r"which its first token must not attend.",
    counterexample="24 random tokens, 6 blocks: the second token of each is moved",
)
def _(case: Case) -> Counterexample:
    x, why = _tokens(case), "nothing is added"

    def by_second(more: int) -> Checks:
        """Checks how the sum of each block changes when its second token moves."""
        changes = []
        for i in range(BLOCKS):
            y = x + (np.arange(N) == i * B + 1)[:, None]
            change = ref.sums_before(y, B, more)[i] - ref.sums_before(x, B, more)[i]
            changes.append(np.max(np.abs(change)))
        yield compare("change by the second token", max(changes), "<=", 0, why=why)

    return Counterexample(by_second(1), by_second(0))
