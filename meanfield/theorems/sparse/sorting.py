"""Sparse Sinkhorn attention: sorted blocks, and who looks at which."""

from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close, counted
from meanfield.theorems._vocabulary import Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, BLOCKS, D, PASSES = 16, 4, 3, 5
B = N // BLOCKS
ORDER = (2, 0, 3, 1)
APART = 0.01  # of a place from all blocks, by which it is a mixture


def _drawn(case: Case) -> tuple[Parameters, Array, Array]:
    """Parameters, a sequence of tokens, and the last matrix of a sorting network."""
    rng = case.rng("sequence")
    p, x = att.generic(rng, 2, D), rng.normal(size=(N, D))
    return p, x, 0.5 * rng.normal(size=(D, BLOCKS))


def _sorting(x: Array, W: Array, tau: float = 1.0) -> Array:
    """The matrix that sorts blocks, in NumPy."""
    return ref.balanced(np.exp(ref.block_sums(x, B) @ W / tau), PASSES)


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
    """The library's `sparse-sinkhorn` of blocks of one token and scores of zero.

    It moves token $i$ by row $i$ of $RX$: for a permutation, by the tokens in that
    order; for a balanced matrix by NumPy's mixture, and off every token.
    """
    # With an `order`, the balanced matrix is that permutation too.
    x, p = case.rng("blocks").normal(size=(BLOCKS, D)), seq.idle(D)
    W = 0.5 * case.rng("network").normal(size=(D, BLOCKS))
    learned = {"order": order} if order else {"W_B": W, "passes": PASSES}
    hard = seq.moved("sparse-sinkhorn", p, x, order=ORDER)
    soft = seq.moved("sparse-sinkhorn", p, x, **learned)
    mixed = ref.balanced(np.exp(x @ W), PASSES) @ x
    nearest = np.min(np.linalg.norm(soft[:, None] - x[None], axis=2))
    yield close("RX of a permutation", hard, x[list(ORDER)])
    yield close("RX of a balanced matrix", soft, mixed)
    yield bounded("distance from all blocks", nearest, ">=", APART)


@sorting.misprinted(
    "T12",
    printed=r"Multiplying by $R$ is equivalent to sorting the blocks.",
    corrected=r"Only for a permutation: rows of another $RX$ are none of the blocks.",
    counterexample="four random tokens, each a block, and a balanced random matrix",
)
def _(case: Case) -> Counterexample:
    x, p = case.rng("blocks").normal(size=(BLOCKS, D)), seq.idle(D)
    W = 0.5 * case.rng("network").normal(size=(D, BLOCKS))
    far = lambda v: float(np.max(np.min(np.abs(v[:, None] - x[None]).max(2), axis=1)))
    soft = seq.moved("sparse-sinkhorn", p, x, W_B=W, passes=PASSES)
    hard = seq.moved("sparse-sinkhorn", p, x, order=ORDER)
    label = "distance from the nearest block"
    slack = Slack(tolerance=1e-12, why="means of one token round")
    soft, hard = (bounded(label, far(v), "<=", 0, **slack) for v in (soft, hard))
    return Counterexample((soft,), (hard,))


@statement(
    "tay2020:3.2-attention",
    source="§3.2",
    claim=r"$A_{ij} = Q_i\psi_S(K)_j^\top + Q_iK_j^\top$ for $\lfloor j/b\rfloor = "
    r"\lfloor i/b\rfloor$ and $-\infty$ elsewhere, and $Y = \mathrm{Softmax}(A)\,"
    r"\psi_S(V)$: a token gives no weight to places outside of its block.",
    control=(
        "scores of other pairs are zero",
        {"outside": 0.0},
        ("matrix", "weight outside"),
    ),
)
def local(case: Case, *, outside: float = -np.inf, length: int = B) -> Checks:
    """The library's matrix of 16 tokens in blocks of 4, against dense ones in NumPy.

    How much weight leaves the block in these, and how many pairs are scored.
    """
    # `outside` is NumPy's score of other pairs, `length` that of its blocks.
    p, x, W = _drawn(case)
    psi = ref.on_tokens(_sorting(x, W), B)
    rows = ref.row_softmax(_scores(p, x, psi, outside, length))
    block = np.arange(N) // B
    other = block[:, None] != block[None, :]
    own = seq.weights("sparse-sinkhorn", p, x, W_B=W, passes=PASSES)
    one = lambda s: np.isfinite(s) & (s != outside)
    pairs = int(np.sum(one(_scores(p, x, psi, -np.inf, length))))
    yield close("matrix", own, rows @ psi)
    yield bounded("weight outside", np.max((rows * other).sum(axis=1)), "<=", 0)
    yield bounded("pairs that are scored", pairs, "=", N * B, why="a count")


def _scores(p: Parameters, x: Array, psi: Array, outside: float, length: int) -> Array:
    scores, mixed = (x @ p.Q.T @ (y @ p.K.T).T / p.epsilon for y in (x, psi @ x))
    return ref.sparse_scores(scores, mixed, length, outside)


@local.misprinted(
    "T7",
    "T8",
    printed=r"$A_{ij} = 0$ unless $\lfloor j/\ell\rfloor = \lfloor i/\ell\rfloor$, "
    r"with $\ell$ the length of the sequence.",
    corrected=r"$-\infty$ in place of 0, under the softmax; $b$, the length of a "
    r"block, in place of $\ell$, with which every pair is scored.",
    counterexample="16 random tokens in blocks of 4",
)
def _(case: Case) -> Counterexample:
    zeros, whole = local(case, outside=0.0)[1], local(case, length=N)[2]
    return Counterexample((zeros, whole), local(case)[1:])


@statement(
    "tay2020:3.2.3-mixture",
    source="§3.2.3",
    claim=r"The mixture $Y = \mathrm{Softmax}(A)\psi_S(V) + "
    r"\mathrm{Softmax}(QK^\top)V$ has all $\ell^2$ scores.",
    control=("softmax is left out", {"share": 0.0}),
)
def mixture(case: Case, *, share: float = 1.0) -> Checks:
    """The library's matrix of 16 tokens: NumPy's sum, and how many entries are zero."""
    # `share` multiplies NumPy's second term.
    p, x, W = _drawn(case)
    psi = ref.on_tokens(_sorting(x, W), B)
    sparse = ref.row_softmax(_scores(p, x, psi, -np.inf, B)) @ psi
    full = ref.row_softmax(x @ p.Q.T @ (x @ p.K.T).T / p.epsilon)
    expected = sparse + share * full
    own = seq.weights("sparse-sinkhorn-mixture", p, x, W_B=W, passes=PASSES)
    hard = seq.weights("sparse-sinkhorn", p, x, order=ORDER) + share * full
    yield close("matrix", own, expected)
    yield close("row sums", expected.sum(axis=1), np.full(N, 2.0))
    yield counted("pairs without a score", np.sum(hard == 0))


@statement(
    "tay2020:3.4-sortcut",
    source="§3.4",
    claim=r"SortCut, $Y = \mathrm{Softmax}(Q\psi_S(K)_{[:n]}^\top)\psi_S(V)_{[:n]}$, "
    r"is softmax attention if $n = \ell$ and $R$ is a permutation.",
    control=("one block is cut off", {"budget": BLOCKS - 1}),
)
def sortcut(case: Case, *, budget: int = BLOCKS) -> Checks:
    """The library's `sortcut` of 16 tokens in a hard order against NumPy's softmax.

    Its matrix and its velocities.
    """
    p, x, _ = _drawn(case)
    options = {"order": ORDER, "budget": budget}
    full = ref.row_softmax(x @ p.Q.T @ (x @ p.K.T).T / p.epsilon)
    yield close("matrix", seq.weights("sortcut", p, x, **options), full)
    yield close("velocity", seq.moved("sortcut", p, x, **options), full @ x @ p.V.T)
