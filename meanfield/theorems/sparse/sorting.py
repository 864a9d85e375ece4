"""Sparse Sinkhorn attention: sorted blocks, and the attention on them."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, zero_count
from meanfield.theorems._vocabulary import Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, BLOCKS, D, PASSES = 16, 4, 3, 5
B = N // BLOCKS
ORDER = (2, 0, 3, 1)
MIN_DISTANCE = 0.01  # a token farther than this from every block is a mixture of blocks


def _draw_problem(case: Case) -> tuple[Parameters, Array, Array]:
    """Random parameters, tokens, and the last matrix of a sorting network."""
    rng = case.rng("sequence")
    p, x = att.random_parameters(rng, 2, D), rng.normal(size=(N, D))
    return p, x, 0.5 * rng.normal(size=(D, BLOCKS))


def _sorting(x: Array, W: Array, tau: float = 1.0) -> Array:
    """The matrix that sorts the blocks of `x`, computed in NumPy."""
    return ref.balance(np.exp(ref.block_sums(x, B) @ W / tau), PASSES)


@statement(
    "tay2020:3.1.2-sorting",
    source="§3.1.2",
    claim=r"$RX$ has the blocks of $X$, in another order, if and only if $R$ is a "
    r"permutation; another doubly stochastic $R$ mixes them.",
    control=(
        "the balanced matrix is a permutation too",
        {"order": (1, 2, 3, 0)},
        ("RX of a balanced matrix", "distance from all blocks"),
    ),
)
def sorting(case: Case, *, order: tuple[int, ...] | None = None) -> Checks:
    """Compares RX from the library's `sparse-sinkhorn` with permuted or mixed tokens.

    With blocks of one token and zero scores, the velocity of token $i$ is row $i$ of
    $RX$. For a permutation, these rows are the permuted tokens. For a balanced matrix,
    they are the mixture that NumPy computes, which equals none of the tokens.
    """
    # If `order` is given, this permutation replaces the balanced matrix.
    x, p = case.rng("blocks").normal(size=(BLOCKS, D)), seq.zero_scores(D)
    W = 0.5 * case.rng("network").normal(size=(D, BLOCKS))
    options = {"order": order} if order else {"W_B": W, "passes": PASSES}
    hard = seq.velocities("sparse-sinkhorn", p, x, order=ORDER)
    soft = seq.velocities("sparse-sinkhorn", p, x, **options)
    expected = ref.balance(np.exp(x @ W), PASSES) @ x
    nearest = np.min(np.linalg.norm(soft[:, None] - x[None], axis=2))
    yield close("RX of a permutation", hard, x[list(ORDER)])
    yield close("RX of a balanced matrix", soft, expected)
    yield compare("distance from all blocks", nearest, ">=", MIN_DISTANCE)


@sorting.register_misprint(
    "T12",
    claim=r"Multiplying by $R$ is equivalent to sorting the blocks.",
    correction=r"Only for a permutation: for other $R$ the rows of $RX$ are no blocks.",
    counterexample="four random tokens, each a block, and a balanced random matrix",
)
def _(case: Case) -> Counterexample:
    x, p = case.rng("blocks").normal(size=(BLOCKS, D)), seq.zero_scores(D)
    W = 0.5 * case.rng("network").normal(size=(D, BLOCKS))
    far = lambda v: float(np.max(np.min(np.abs(v[:, None] - x[None]).max(2), axis=1)))
    soft = seq.velocities("sparse-sinkhorn", p, x, W_B=W, passes=PASSES)
    hard = seq.velocities("sparse-sinkhorn", p, x, order=ORDER)
    label = "distance from the nearest block"
    slack = Slack(tolerance=1e-12, why="means of one token round")
    soft, hard = (compare(label, far(v), "<=", 0, **slack) for v in (soft, hard))
    return Counterexample((soft,), (hard,))


@statement(
    "tay2020:3.2-attention",
    source="§3.2",
    claim=r"$A_{ij} = Q_i\psi_S(K)_j^\top + Q_iK_j^\top$ for $\lfloor j/b\rfloor = "
    r"\lfloor i/b\rfloor$ and $-\infty$ elsewhere, and $Y = \mathrm{Softmax}(A)\,"
    r"\psi_S(V)$: a token gives no weight to places outside of its block.",
    control=(
        "scores of pairs in different blocks are zero",
        {"fill_value": 0.0},
        ("matrix", "weight outside"),
    ),
)
def local_attention(
    case: Case, *, fill_value: float = -np.inf, length: int = B
) -> Checks:
    """Compares the library's matrix of 16 tokens in blocks of 4 with NumPy.

    NumPy uses dense matrices. The weight outside the block must be zero, and the
    number of scored pairs is counted.
    """
    # NumPy gives pairs in different blocks the score `fill_value`; each block has
    # `length` tokens.
    p, x, W = _draw_problem(case)
    psi = ref.expand_to_tokens(_sorting(x, W), B)
    rows = ref.row_softmax(_scores(p, x, psi, fill_value, length))
    block = np.arange(N) // B
    other_blocks = block[:, None] != block[None, :]
    weights = seq.weights("sparse-sinkhorn", p, x, W_B=W, passes=PASSES)
    is_scored = lambda s: np.isfinite(s) & (s != fill_value)
    pairs = int(np.sum(is_scored(_scores(p, x, psi, -np.inf, length))))
    yield close("matrix", weights, rows @ psi)
    yield compare("weight outside", np.max((rows * other_blocks).sum(axis=1)), "<=", 0)
    yield compare("pairs that are scored", pairs, "=", N * B, why="a count")


def _scores(
    p: Parameters, x: Array, psi: Array, fill_value: float, length: int
) -> Array:
    scores, sorted_scores = (
        x @ p.Q.T @ (y @ p.K.T).T / p.epsilon for y in (x, psi @ x)
    )
    return ref.sparse_scores(scores, sorted_scores, length, fill_value)


@local_attention.register_misprint(
    "T7",
    "T8",
    claim=r"$A_{ij} = 0$ unless $\lfloor j/\ell\rfloor = \lfloor i/\ell\rfloor$, "
    r"with $\ell$ the length of the sequence.",
    correction=r"$-\infty$ in place of 0, under the softmax; $b$, the length of a "
    r"block, in place of $\ell$, with which every pair is scored.",
    counterexample="16 random tokens in blocks of 4",
)
def _(case: Case) -> Counterexample:
    zeros = local_attention(case, fill_value=0.0)[1]
    whole = local_attention(case, length=N)[2]
    return Counterexample((zeros, whole), local_attention(case)[1:])


@statement(
    "tay2020:3.2.3-mixture",
    source="§3.2.3",
    claim=r"The mixture $Y = \mathrm{Softmax}(A)\psi_S(V) + "
    r"\mathrm{Softmax}(QK^\top)V$ has all $\ell^2$ scores.",
    control=("softmax is left out", {"share": 0.0}),
)
def mixture(case: Case, *, share: float = 1.0) -> Checks:
    """Compares the library's matrix of 16 tokens with a NumPy sum, and counts zeros.

    The causal mixture is compared with its sparse term plus a causal softmax of NumPy.
    """
    # The control changes `share`, which multiplies the second term of the NumPy sum.
    p, x, W = _draw_problem(case)
    psi = ref.expand_to_tokens(_sorting(x, W), B)
    sparse = ref.row_softmax(_scores(p, x, psi, -np.inf, B)) @ psi
    scores = x @ p.Q.T @ (x @ p.K.T).T / p.epsilon
    full = ref.row_softmax(scores)
    expected = sparse + share * full
    options = {"W_B": W, "passes": PASSES}
    weights = seq.weights("sparse-sinkhorn-mixture", p, x, **options)
    hard = seq.weights("sparse-sinkhorn", p, x, order=ORDER) + share * full
    yield close("matrix", weights, expected)
    yield close("row sums", expected.sum(axis=1), np.full(N, 2.0))
    yield zero_count("pairs without a score", np.sum(hard == 0))
    causal = ref.row_softmax(np.where(np.tri(N, dtype=bool), scores, -np.inf))
    sums = seq.weights("sparse-sinkhorn-causal", p, x, **options) + share * causal
    weights = seq.weights("sparse-sinkhorn-causal-mixture", p, x, **options)
    yield close("causal matrix", weights, sums)


@statement(
    "tay2020:3.4-sortcut",
    source="§3.4",
    claim=r"SortCut, $Y = \mathrm{Softmax}(Q\psi_S(K)_{[:n]}^\top)\psi_S(V)_{[:n]}$, "
    r"is softmax attention if $n = \ell$ and $R$ is a permutation.",
    control=("one block is cut off", {"budget": BLOCKS - 1}),
)
def sortcut(case: Case, *, budget: int = BLOCKS) -> Checks:
    """Compares the library's `sortcut` of 16 tokens with a NumPy softmax.

    The blocks are permuted. Both the matrix and the velocities are compared.
    """
    p, x, _ = _draw_problem(case)
    options = {"order": ORDER, "budget": budget}
    full = ref.row_softmax(x @ p.Q.T @ (x @ p.K.T).T / p.epsilon)
    yield close("matrix", seq.weights("sortcut", p, x, **options), full)
    velocities = seq.velocities("sortcut", p, x, **options)
    yield close("velocity", velocities, full @ x @ p.V.T)
