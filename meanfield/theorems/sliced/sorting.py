"""Sliced transport: sorting operators, hard and soft."""

from collections.abc import Callable

from scipy.optimize import linprog

from meanfield.attention import Attention
from meanfield.theorems._arrays import Array, Rng, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import slices as lib
from meanfield.theorems.reference import slices as ref

N = 12
GAP = 0.5
TEMPERATURES = (0.1, 0.05, 0.025)
STRICT = Slack(tolerance=1e-6, why="rounding, 1e-16, over the smallest error, 2e-9")


def _spaced_entries(rng: Rng) -> Array:
    """Random numbers in random order; the smallest gap between them is `GAP`."""
    steps = rng.permutation(np.concatenate([[GAP], rng.uniform(GAP, 1.5, size=N - 2)]))
    return rng.permutation(np.concatenate([[0.0], np.cumsum(steps)])) - N / 2


def _tied_entries(rng: Rng) -> Array:
    """Random numbers of which the two smallest are equal."""
    v = _spaced_entries(rng)
    return np.maximum(v, np.sort(v)[1])


@statement(
    "shahbazi2025:eq-7-softsort",
    source="Eq. (7)",
    claim=r"$\mathrm{SoftSort}_t(v)_{ij} = \mathrm{softmax}_j(-|\mathrm{sort}(v)_i - "
    r"v_j|^p/t)$ tends to the permutation that sorts as $t \to 0$, with an error from "
    r"$\frac1Ne^{-g/t}$ to $(N-1)e^{-g/t}$, $g$ the least $|v_i - v_j|^p$; so "
    r"$\frac1NA^\top B$ of soft sorts tends to the plan of hard ones.",
    hypotheses="distinct entries",
    control=(
        "two entries are equal: each gets a half",
        {"entries": _tied_entries},
        ("error over most…",),
    ),
)
def soft_sort(
    case: Case, *, entries: Callable[[Rng], Array] = _spaced_entries
) -> Checks:
    """Compares NumPy soft sorts of twelve numbers with the sorting permutation.

    The temperatures are t = 0.1, 0.05 and 0.025, and the powers p = 1 and 2. The
    product of two soft sorts is compared with the library's plan of a slice.
    """
    rng = case.rng("entries")
    a, b = entries(rng), _spaced_entries(rng)
    cloud = att.uniform_cloud(np.zeros((N, 4)))
    cloud.x[:, 0], cloud.x[:, 2] = a, b
    plan = lib.pair_coupling(np.eye(2)[:1], cloud)
    hard = ref.permutation(a)
    for p in (1, 2):
        decay = np.exp(-(GAP**p) / np.array(TEMPERATURES))
        pairs = [[ref.soft_permutation(v, t, p) for v in (a, b)] for t in TEMPERATURES]
        error = np.array([np.max(np.abs(A - hard)) for A, _ in pairs])
        product = np.array([np.max(np.abs(A.T @ B - N * plan)) for A, B in pairs])
        ratios = {
            "error over most": error / ((N - 1) * decay),
            "least over error": decay / N / error,
            "AᵀB over most": product / ((N**2 - 1) * decay),
        }
        for label, ratio in ratios.items():
            yield compare(f"{label}, p = {p}", np.max(ratio), "<=", 1, **STRICT)


def _softmax(p: Parameters, rows: Array) -> Attention:
    """Softmax attention, which ignores the slices."""
    del rows
    return p.attention("softmax")


@statement(
    "shahbazi2025:eq-8-ds",
    source="Eq. (8)",
    claim=r"With hard sorting $NG$, $G = \frac1L\sum_lU_l$, is doubly stochastic, and "
    r"at most $LN$ of its entries are not zero.",
    hypotheses=r"equal weights; $LNG$ is a sum of $L$ permutations if no projections "
    r"coincide",
    control=(
        "softmax of the scores, which normalises rows only",
        {"attention": _softmax},
        ("column sums", "LNG in whole numbers", "entries that are not zero"),
    ),
)
def doubly_stochastic(
    case: Case,
    *,
    attention: Callable[[Parameters, Array], Attention] = lib.sliced_attention,
) -> Checks:
    """Checks sums and entries of the library's plan of twelve tokens on four slices."""
    rng = case.rng("tokens")
    p = att.random_parameters(rng, 2, 4)
    cloud = att.uniform_cloud(rng.normal(size=(N, 4)))
    rows = lib.directions(rng, 4)
    plan = N * lib.coupling(attention(p, rows), cloud)
    yield close("row sums", plan.sum(axis=1), np.ones(N))
    yield close("column sums", plan.sum(axis=0), np.ones(N))
    yield close("LNG in whole numbers", 4 * plan, np.round(4 * plan))
    yield compare("entries that are not zero", np.count_nonzero(plan), "<=", 4 * N)


def _soft_tokens(case: Case) -> tuple[Cloud, Array]:
    """Twelve random pairs of a query and a key in the plane, and a slice."""
    rng = case.rng("soft")
    return att.uniform_cloud(rng.normal(size=(N, 4))), lib.directions(rng, 1)


def _soft_matrix(case: Case, name: str, t: float, power: int = 1) -> Array:
    r"""The library's attention matrix; the temperature is $t^p$."""
    cloud, rows = _soft_tokens(case)
    temperature = jnp.asarray(t**power)
    attention = lib.pair_parameters(2).attention(
        name, slices=rows, temperature=temperature, power=power
    )
    return N * lib.coupling(attention, cloud)


@statement(
    "shahbazi2025:soft-not-ds",
    source="Eqs. (7) and (8), with soft sorting",
    claim=r"With soft sorting $\frac1NA^\top B$ has mass one, but $A^\top B$ is not "
    r"doubly stochastic: its row sums are the column sums of $A$. Nor is it with rows "
    r"divided by their sums.",
    hypotheses=r"$t > 0$, generic entries, $p = 1$ or $2$",
    control=(
        r"$t = 10^{-6}$, where sorting is hard",
        {"t": 1e-6},
        ("largest |row sum − 1|…", "largest |column sum − 1|…", "the same, rows…"),
    ),
)
def soft_marginals(case: Case, *, t: float = 0.5) -> Checks:
    """Checks sums of the library's attention matrices for twelve queries and keys.

    Row sums of `esp-soft-published` are compared with column sums of the soft sort A,
    which NumPy computes. The matrix of `esp-soft` must be this matrix with rows divided
    by their sums. The powers are p = 1 and 2, and the temperatures $1/2^p$.
    """
    for power in (1, 2):
        yield from _soft_sums(case, t, power)


def _soft_sums(case: Case, t: float, power: int) -> Checks:
    cloud, rows = _soft_tokens(case)
    plan, divided_plan = (
        _soft_matrix(case, name, t, power)
        for name in ("esp-soft-published", "esp-soft")
    )
    A = ref.soft_permutation(cloud.x[:, :2] @ rows[0], t**power, power)
    row_sums, label = plan.sum(axis=1), f"p = {power}"
    quotient = plan / row_sums[:, None]
    deviation = lambda sums: np.max(np.abs(sums - 1))
    deviations = {
        "largest |row sum − 1|": deviation(row_sums),
        "largest |column sum − 1|": deviation(plan.sum(axis=0)),
        "the same, rows divided": deviation(divided_plan.sum(axis=0)),
    }
    yield close(f"mass, {label}", plan.sum() / N, 1.0)
    yield close(f"row sums and column sums of A, {label}", row_sums, A.sum(axis=0))
    yield close(f"rows divided by their sums, {label}", divided_plan, quotient)
    for name, value in deviations.items():
        yield compare(f"{name}, {label}", value, ">=", 0.01)


@soft_marginals.register_misprint(
    "H4",
    claim=r"$A^\top B$ is doubly stochastic, with soft sorting too.",
    correction=r"Its entries sum to $N$; it is doubly stochastic as $t \to 0$.",
    counterexample="twelve normal queries and keys in the plane, one slice, t = 1/2",
)
def _(case: Case) -> Counterexample:
    soft, hard = (_soft_matrix(case, "esp-soft-published", t) for t in (0.5, 1e-6))
    sums = lambda plan, label: (
        close(f"row sums, {label}", plan.sum(axis=1), np.ones(N)),
        close(f"column sums, {label}", plan.sum(axis=0), np.ones(N)),
    )
    mass = close("mass, t = 1/2", soft.sum() / N, 1.0)
    return Counterexample(sums(soft, "t = 1/2"), (mass, *sums(hard, "t = 1e-6")))


@statement(
    "shahbazi2025:triangular",
    source="Causal attention",
    claim="A matrix that is lower triangular and doubly stochastic is the identity; so "
    "no causal attention is doubly stochastic and looks back.",
    control=("one diagonal above may be used, which allows cycles", {"n_diagonals": 1}),
)
def triangular_matrices(_: Case, *, n_diagonals: int = 0) -> Checks:
    """Maximises the mass off the diagonal, and each entry there, by linear programmes.

    All maxima must be 0. The matrices have six rows, and zeros beyond `n_diagonals`
    diagonals above the main one.
    """
    n = 6
    i, j = np.indices((n, n))
    offdiagonal = (i != j).astype(float)
    single = np.eye(n * n).reshape(-1, n, n)[offdiagonal.ravel() > 0]
    mass = _largest_sum(offdiagonal, j <= i + n_diagonals)
    entries = [_largest_sum(entry, j <= i + n_diagonals) for entry in single]
    slack = Slack(tolerance=1e-9, why="SciPy's linear solver ends at a vertex")
    yield compare("mass off the diagonal", mass, "<=", 0, **slack)
    yield compare("largest entry off the diagonal", max(entries), "<=", 0, **slack)


def _largest_sum(weights: Array, pattern: Array) -> float:
    """Largest weighted sum of a doubly stochastic matrix that is zero off `pattern`."""
    identity, ones = np.eye(len(weights)), np.ones(len(weights))
    sums = np.vstack([np.kron(identity, ones), np.kron(ones, identity)])
    bounds = [(0, float(entry)) for entry in pattern.ravel()]
    masses = np.ones(2 * len(weights))
    return -linprog(-weights.ravel(), A_eq=sums, b_eq=masses, bounds=bounds).fun
