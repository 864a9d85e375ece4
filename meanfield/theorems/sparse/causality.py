"""Sparse Sinkhorn attention: what is sorted causally, and what leaks."""

from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close, counted, order
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, BLOCKS, D, PASSES = 15, 5, 3, 5
B = N // BLOCKS
STEP = 0.1


def _drawn(case: Case) -> tuple[Array, Array]:
    """A sequence of tokens, and the matrix of a sorting network."""
    rng = case.rng("sequence")
    return rng.normal(size=(N, D)), 0.5 * rng.normal(size=(D, BLOCKS))


def _sorted(x: Array, W: Array, balancing: ref.Balancing, passes: int) -> Array:
    """The tokens after their blocks are sorted, in NumPy."""
    R = balancing(np.exp(ref.sums_before(x, B) @ W), passes)
    return ref.on_tokens(R, B) @ x


def _leak(x: Array, W: Array, balancing: ref.Balancing, passes: int = PASSES) -> float:
    """The most that a sorted block changes by, over the step of a later block."""
    block, psi, leaks = np.arange(N) // B, _sorted(x, W, balancing, passes), [0.0]
    for later in range(1, BLOCKS):
        y = x + STEP * (block == later)[:, None]
        change = _sorted(y, W, balancing, passes) - psi
        leaks.append(float(np.max(np.abs(change[block < later]))) / STEP)
    return max(leaks)


@statement(
    "tay2020:3.3-mask",
    source="Eq. (6), §3.3",
    aliases=("tay2020:eq-6",),
    claim=r"With $R_{ik} = 0$ for $k > i$ and columns divided, in row $i$, by their "
    r"sums over rows up to $i$, the sorted block $i$ of $RB(X)$ does not depend on "
    r"later blocks.",
    control=(
        "columns are divided by their sums over all rows",
        {"balancing": ref.balanced_below},
    ),
)
def causal(case: Case, *, balancing: ref.Balancing = ref.balanced_so_far) -> Checks:
    """Differences in NumPy, of 15 tokens in 5 blocks, when one later block is moved.

    The library's balanced matrix against NumPy's, and its row sums.
    """
    x, W = _drawn(case)
    logs = ref.sums_before(x, B) @ W
    S = balancing(np.exp(logs), PASSES)
    yield close("R and the library", S, seq.balance_causally(logs, PASSES))
    yield bounded("dependence on later blocks", _leak(x, W, balancing), "<=", 0)


@causal.misprinted(
    "T3",
    printed=r"$R$ is masked for $j \geq i$ and balanced by whole rows and columns, and "
    r"$X_S = RB(X)$.",
    corrected=r"Under either mask, and for $R^\top$ too, the sums of columns mix later "
    r"rows: the mask must be lower, and the sums must end at the row.",
    counterexample="15 random tokens in 5 blocks",
)
def _(case: Case) -> Counterexample:
    x, W = _drawn(case)
    leak = lambda label, *how: bounded(label, _leak(x, W, *how), "<=", 0)
    return Counterexample(
        (
            leak("upper mask", ref.balanced_above),
            leak("upper mask, transposed, one pass", ref.transposed_above, 1),
            leak("upper mask, transposed", ref.transposed_above),
            leak("lower mask, whole columns", ref.balanced_below),
        ),
        (leak("lower mask, sums so far", ref.balanced_so_far),),
    )


@statement(
    "tay2020:3.3.2-limit",
    source="§3.3.2",
    claim=r"A positive lower triangle that is balanced over whole rows and columns "
    r"tends to the identity, with an error of order one over the passes $k$.",
    remark="So causal sorting degenerates: in the limit every block is sorted to "
    "itself.",
    control=("no entry is masked", {"mask": lambda X: X}),
)
def degenerate(case: Case, *, mask: Unary = np.tril) -> Checks:
    """The library's balancing of a masked 5 × 5 matrix, k = 500 to 4000."""
    counts = (500, 1000, 2000, 4000)
    errors = [_from_identity(case, mask, count) for count in counts]
    yield order("order in 1/k", 1 / np.array(counts), errors, 1, names=("1/k", "gap"))


def _from_identity(case: Case, mask: Unary, passes: int) -> float:
    X = mask(np.exp(0.5 * case.rng("scores").normal(size=(BLOCKS, BLOCKS))))
    with np.errstate(divide="ignore"):
        S = seq.balance(np.log(X), passes)
    return float(np.max(np.abs(S - np.eye(BLOCKS))))


@degenerate.misprinted(
    "T4",
    printed="Masked balancing converges to a causal sorting of the blocks.",
    corrected="It converges to the identity, which sorts nothing.",
    counterexample="a random positive triangle, 5 × 5, after 20 000 passes",
)
def _(case: Case) -> Counterexample:
    error = _from_identity(case, np.tril, 20_000)
    slack = Slack(tolerance=1e-3, why="the error is of order one over the passes")
    return Counterexample(
        (bounded("weight off the diagonal", error, ">=", 0.1),),
        (bounded("distance from the identity", error, "<=", 0, **slack),),
    )


@statement(
    "tay2020:3.3.3",
    source="§3.3.3",
    claim=r"Entries that are masked stay zero, however often the matrix is balanced.",
    control=(
        "what is masked has the score −5",
        {"hidden": -5.0},
        ("masked entries that are positive",),
    ),
)
def masked(case: Case, *, hidden: float = -np.inf) -> Checks:
    """The library's balancing of 6 × 6 scores with random masks, 1 to 100 passes.

    The diagonal is not masked; entries of the lower triangle by causal balancing, too.
    """
    rng, positive = case.rng("masks"), []
    for passes in (1, 10, 100):
        mask = (rng.random((6, 6)) < 0.5) & ~np.eye(6, dtype=bool)
        mask[0, 1] = True
        logs = np.where(mask, hidden, rng.normal(size=(6, 6)))
        S = seq.balance(logs, passes)
        positive.append(np.sum(S[mask] > 0))
    above = np.where(np.triu(np.ones((6, 6)), 1) > 0, hidden, rng.normal(size=(6, 6)))
    lower = seq.balance_causally(above, 10)
    yield counted("masked entries that are positive", sum(positive))
    yield counted("entries above the diagonal", np.sum(np.triu(lower, 1) > 0))


@statement(
    "new:N5",
    source="ERRATA T3",
    claim=r"Sparse Sinkhorn attention with a causal sort, balanced by sums of columns "
    r"over the rows so far, has no dependence on later tokens.",
    hypotheses=r"pools end with the first token of their block; a query sees the "
    r"places of its block up to its own",
    control=("the sort is not causal", {"name": "sparse-sinkhorn"}),
)
def no_leak(case: Case, *, name: str = "sparse-sinkhorn-causal") -> Checks:
    """The library's velocities of 15 tokens in 5 blocks: derivatives and differences.

    Both by every later token, also of the same block; exactly zero is claimed.
    """
    rng, (x, W) = case.rng("parameters"), _drawn(case)
    p, options = att.generic(rng, 2, D), {"W_B": W, "passes": PASSES}
    of = p.attention(name, **options)
    J = np.abs(np.asarray(seq.slopes(of, seq.sequence(x)))).max(axis=(1, 3))
    v, changes = seq.moved(name, p, x, **options), [0.0]
    for later in range(1, N):
        y = x + 10 * (np.arange(N) == later)[:, None]
        change = seq.moved(name, p, y, **options) - v
        changes.append(float(np.max(np.abs(change[:later]))))
    yield bounded("derivative by later tokens", np.max(np.triu(J, 1)), "<=", 0)
    yield bounded("change by later tokens", max(changes), "<=", 0)
