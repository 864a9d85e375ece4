"""Sparse Sinkhorn attention: causal sorting, and leaks from later tokens."""

from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, order, zero_count
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, BLOCKS, D, PASSES = 15, 5, 3, 5
B = N // BLOCKS
STEP = 0.1


def _draw_sequence(case: Case) -> tuple[Array, Array]:
    """Random sequence of tokens, and the matrix of a sorting network."""
    rng = case.rng("sequence")
    return rng.normal(size=(N, D)), 0.5 * rng.normal(size=(D, BLOCKS))


def _sort_tokens(x: Array, W: Array, balancing: ref.Balancing, passes: int) -> Array:
    """Sorts blocks of tokens in NumPy, by a sorting network with the matrix `W`."""
    R = balancing(np.exp(ref.sums_before(x, B) @ W), passes)
    return ref.expand_to_tokens(R, B) @ x


def _leak(x: Array, W: Array, balancing: ref.Balancing, passes: int = PASSES) -> float:
    """Largest change of a sorted block, relative to the shift of a later block."""
    block, psi, leaks = np.arange(N) // B, _sort_tokens(x, W, balancing, passes), [0.0]
    for later in range(1, BLOCKS):
        y = x + STEP * (block == later)[:, None]
        change = _sort_tokens(y, W, balancing, passes) - psi
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
        {"balancing": ref.balance_lower},
    ),
)
def causal_sort(
    case: Case, *, balancing: ref.Balancing = ref.balance_causally
) -> Checks:
    """Measures how sorted blocks change when one later block is moved.

    NumPy sorts 15 tokens in 5 blocks; no block may depend on later blocks. The
    library's balanced matrix is compared with that of NumPy.
    """
    x, W = _draw_sequence(case)
    logs = ref.sums_before(x, B) @ W
    S = balancing(np.exp(logs), PASSES)
    yield close("R and the library", S, seq.balance_causally(logs, PASSES))
    yield compare("dependence on later blocks", _leak(x, W, balancing), "<=", 0)


@causal_sort.register_misprint(
    "T3",
    claim=r"$R$ is masked for $j \geq i$ and balanced by whole rows and columns, and "
    r"$X_S = RB(X)$.",
    correction=r"Under either mask, and for $R^\top$ too, the sums of columns mix in "
    r"later rows: the mask must be lower, and the sums must end at the row.",
    counterexample="15 random tokens in 5 blocks",
)
def _(case: Case) -> Counterexample:
    x, W = _draw_sequence(case)
    leak = lambda label, *how: compare(label, _leak(x, W, *how), "<=", 0)
    return Counterexample(
        (
            leak("upper mask", ref.balance_upper),
            leak("upper mask, transposed, one pass", ref.balance_upper_transposed, 1),
            leak("upper mask, transposed", ref.balance_upper_transposed),
            leak("lower mask, whole columns", ref.balance_lower),
        ),
        (leak("lower mask, sums so far", ref.balance_causally),),
    )


@statement(
    "tay2020:3.3.2-limit",
    source="§3.3.2",
    claim=r"A positive lower triangle that is balanced over whole rows and columns "
    r"tends to the identity, with an error of order one over the passes $k$.",
    remark="So causal sorting degenerates: in the limit every block is mapped to "
    "itself.",
    control=("no entry is masked", {"mask": lambda X: X}),
)
def degeneracy(case: Case, *, mask: Unary = np.tril) -> Checks:
    """Measures how fast the library's balanced matrix tends to the identity.

    A mask makes the 5 × 5 matrix lower triangular. The distance of the balanced matrix
    from the identity must be of order 1/k after k passes, for k from 500 to 4000.
    """
    counts = (500, 1000, 2000, 4000)
    errors = [_from_identity(case, mask, count) for count in counts]
    yield order("order in 1/k", 1 / np.array(counts), errors, 1, names=("1/k", "gap"))


def _from_identity(case: Case, mask: Unary, passes: int) -> float:
    X = mask(np.exp(0.5 * case.rng("scores").normal(size=(BLOCKS, BLOCKS))))
    with np.errstate(divide="ignore"):
        S = seq.balance(np.log(X), passes)
    return float(np.max(np.abs(S - np.eye(BLOCKS))))


@degeneracy.register_misprint(
    "T4",
    claim="Masked balancing converges to a causal sorting of the blocks.",
    correction="It converges to the identity, which sorts nothing.",
    counterexample="a random positive triangle, 5 × 5, after 20 000 passes",
)
def _(case: Case) -> Counterexample:
    error = _from_identity(case, np.tril, 20_000)
    slack = Slack(tolerance=1e-3, why="the error is of order one over the passes")
    return Counterexample(
        (compare("weight off the diagonal", error, ">=", 0.1),),
        (compare("distance from the identity", error, "<=", 0, **slack),),
    )


@statement(
    "tay2020:3.3.3",
    source="§3.3.3",
    claim=r"Entries that are masked stay zero, however often the matrix is balanced.",
    control=(
        "masked entries have the score −5",
        {"masked_score": -5.0},
        ("masked entries that are positive",),
    ),
)
def masked_entries(case: Case, *, masked_score: float = -np.inf) -> Checks:
    """Counts masked entries that are positive after the library's balancing.

    The 6 × 6 scores have random masks that spare the diagonal, and 1 to 100 passes are
    taken. Causal balancing of a lower triangle is tested too.
    """
    rng, positive = case.rng("masks"), []
    for passes in (1, 10, 100):
        mask = (rng.random((6, 6)) < 0.5) & ~np.eye(6, dtype=bool)
        mask[0, 1] = True
        logs = np.where(mask, masked_score, rng.normal(size=(6, 6)))
        S = seq.balance(logs, passes)
        positive.append(np.sum(S[mask] > 0))
    logs = rng.normal(size=(6, 6))
    causal_logs = np.where(np.tri(6, dtype=bool), logs, masked_score)
    lower = seq.balance_causally(causal_logs, 10)
    yield zero_count("masked entries that are positive", sum(positive))
    yield zero_count("entries above the diagonal", np.sum(np.triu(lower, 1) > 0))


@statement(
    "new:N5",
    source="ERRATA T3",
    claim=r"Sparse Sinkhorn attention with a causal sort, balanced by sums of columns "
    r"over the rows so far, has no dependence on later tokens.",
    hypotheses=r"pools end with the first token of their block; a query attends "
    r"to its block up to its own position",
    control=("the sort is not causal", {"name": "sparse-sinkhorn"}),
)
def no_leak(case: Case, *, name: str = "sparse-sinkhorn-causal") -> Checks:
    """Checks that the library's velocities do not depend on later tokens.

    For 15 tokens in 5 blocks, derivatives and differences with respect to every later
    token must be exactly zero, also for later tokens in the same block.
    """
    rng, (x, W) = case.rng("parameters"), _draw_sequence(case)
    p, options = att.random_parameters(rng, 2, D), {"W_B": W, "passes": PASSES}
    attention = p.attention(name, **options)
    jacobian = np.asarray(seq.velocity_jacobian(attention, seq.sequence(x)))
    J = np.abs(jacobian).max(axis=(1, 3))
    v, changes = seq.velocities(name, p, x, **options), [0.0]
    for later in range(1, N):
        y = x + 10 * (np.arange(N) == later)[:, None]
        change = seq.velocities(name, p, y, **options) - v
        changes.append(float(np.max(np.abs(change[:later]))))
    yield compare("derivative by later tokens", np.max(np.triu(J, 1)), "<=", 0)
    yield compare("change by later tokens", max(changes), "<=", 0)
