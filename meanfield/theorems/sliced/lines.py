"""Sliced transport: plans on the line, and their lifts."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, Binary, Rng, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, gap
from meanfield.theorems._vocabulary import Cloud
from meanfield.theorems.library import slices as lib
from meanfield.theorems.library.attentions import uniform_cloud
from meanfield.theorems.reference import slices as ref
from meanfield.theorems.reference.measures import programme

PROGRAMME = Slack(
    tolerance=1e-9,
    why="SciPy's linear solver ends at a vertex: rounding of at most 24² products",
)


@statement(
    "shahbazi2025:eq-4",
    source="Eq. (4)",
    claim=r"On the line $W_p(\mu_1, \mu_2)^p = \int_0^1 |F_1^{-1} - F_2^{-1}|^p$ for "
    r"every $p \geq 1$, reached by the one plan that keeps the order; between atoms of "
    r"equal weight it is the map $T = F_2^{-1}\circ F_1$.",
    control=("keys are matched in decreasing order", {"sign": -1.0}),
)
def transport_on_the_line(case: Case, *, sign: float = 1.0) -> Checks:
    """Checks the library's plan between two clouds of nine tokens on the line.

    With unequal weights, the costs of the plan for p = 1, 2, 3 are compared with a
    linear programme and with NumPy quantiles. With equal weights, the map of the
    plan is compared with sorting.
    """
    # The control changes `sign`, which multiplies the library's keys.
    rng = case.rng("line")
    z, w = rng.normal(size=(9, 2)), rng.uniform(0.2, 1.8, size=9)
    p, share = lib.pair_parameters(1), w / w.sum()
    attention = lib.sliced_attention(p._replace(K=sign * p.K), np.ones((1, 1)))
    a, b = z.T
    plan = lib.coupling(attention, Cloud(z, w))
    for power in (1, 2, 3):
        cost = np.abs(a[:, None] - b[None, :]) ** power
        actual, least = np.sum(plan * cost), programme(cost, share, share)[1]
        exact = ref.quantile_cost(a, b, share, power)
        yield gap(f"cost, p = {power}", actual, least, **PROGRAMME)
        yield close(f"quantiles, p = {power}", actual, exact)
    ranks = np.argsort(np.argsort(a))
    image = 9 * lib.coupling(attention, uniform_cloud(z)) @ b
    yield close("T = F₂⁻¹∘F₁", image, np.sort(b)[ranks])


@statement(
    "shahbazi2025:eq-5",
    source="Eq. (5)",
    claim=r"The lifted plan of a direction $\theta$ gives to $(x_i, y_j)$ the mass "
    r"$\Lambda(\theta x_i, \theta y_j)\,p_i q_j / (P(\theta x_i)\,Q(\theta y_j))$: "
    r"$\Lambda$ is optimal between the projections, $P$ and $Q$ are their masses. Its "
    r"marginals are $p$ and $q$, also where projections coincide.",
    control=(
        "tokens are moved apart by a thousandth, so that projections are distinct",
        {"shift": 1e-3},
        ("u_θ…",),
    ),
)
def lifted_plan(case: Case, *, shift: float = 0.0) -> Checks:
    """Compares the library's plans with POT's, lifted from distinct projections.

    Weights are random. Coordinates are integers, so that many projections to both axes
    and to a diagonal coincide. Marginals are checked too.
    """
    # The control changes `shift`, the size of a random displacement of the library's
    # tokens.
    rng = case.rng("integers")
    x, y = rng.integers(0, 3, size=(2, 12, 2))
    queries, keys = (
        Cloud(z + shift * rng.normal(size=z.shape), rng.uniform(0.2, 1.8, size=12))
        for z in (x, y)
    )
    p, q = queries.share, keys.share
    for theta in np.array([[1, 0], [0, 1], [1, 1]]):
        identity, row = lib.identity_parameters(2), theta[None].astype(float)
        plan = lib.plan_across(lib.sliced_attention(identity, row), queries, keys)
        label = f"θ = ({theta[0]}, {theta[1]})"
        yield close(f"row sums, {label}", plan.sum(axis=1), p)
        yield close(f"column sums, {label}", plan.sum(axis=0), q)
        yield close(f"u_θ, {label}", plan, ref.lifted_plan(x @ theta, y @ theta, p, q))


def _probability(rng: Rng) -> Array:
    """Four numbers that sum to one."""
    return rng.dirichlet(np.ones(4))


@statement(
    "shahbazi2025:eq-6",
    source="Eq. (6)",
    claim=r"$\bar\gamma = E_{\theta\sim\sigma}[\gamma_\theta]$ is a coupling, whatever "
    r"the probability $\sigma$ on directions.",
    control=(
        r"$\sigma$ is not normalised",
        {"sigma": lambda rng: 2 * _probability(rng)},
        ("row sums", "column sums", "mean of plans"),
    ),
)
def expected_plan(
    case: Case, *, sigma: Callable[[Rng], Array] = _probability
) -> Checks:
    """Compares means of the library's plans along four directions with POT's.

    Directions have random shares, and tokens have unequal weights. Marginals are
    checked. For equal shares, the library's plan of all four slices is compared too.
    """
    rng = case.rng("slices")
    cloud = Cloud(rng.normal(size=(12, 4)), rng.uniform(0.2, 1.8, size=12))
    rows, shares = lib.directions(rng, 4), sigma(rng)
    plans = lib.couplings(rows, cloud)
    mean, w = np.tensordot(shares, plans, 1), cloud.share
    exact = [
        ref.lifted_plan(cloud.x[:, :2] @ v, cloud.x[:, 2:] @ v, w, w) for v in rows
    ]
    joint_plan = lib.pair_coupling(rows, cloud)
    yield close("row sums", mean.sum(axis=1), w)
    yield close("column sums", mean.sum(axis=0), w)
    yield close("mean of plans", mean, np.tensordot(shares / shares.sum(), exact, 1))
    yield close("four slices at once", joint_plan, np.mean(exact, axis=0))


@statement(
    "shahbazi2025:U-theta",
    source="The plan of a slice",
    claim=r"With $A$ and $B$ the permutations that sort the projections of queries and "
    r"of keys, $U = \frac1N A^\top B$ is the optimal plan of the slice, lifted.",
    hypotheses=r"equal weights; projections of either side distinct",
    control=(r"$AB^\top$ in place of $A^\top B$", {"product": lambda A, B: A @ B.T}),
)
def permutation_plan(case: Case, *, product: Binary = lambda A, B: A.T @ B) -> Checks:
    """Compares AᵀB/N with the library's plan and with a linear programme.

    There are twelve tokens in the plane and three directions. The product AᵀB must pair
    tokens of equal rank.
    """
    rng = case.rng("ranks")
    cloud, even = uniform_cloud(rng.normal(size=(12, 4))), np.full(12, 1 / 12)
    for k, theta in enumerate(lib.directions(rng, 3), 1):
        a, b = cloud.x[:, :2] @ theta, cloud.x[:, 2:] @ theta
        U = product(ref.permutation(a), ref.permutation(b)) / 12
        least = programme((a[:, None] - b[None, :]) ** 2, even, even)[0]
        partners = np.eye(12)[ref.partner(a, b)] / 12
        plan = lib.pair_coupling(theta[None], cloud)
        yield close(f"U and the library, slice {k}", U, plan)
        yield gap(f"U and the programme, slice {k}", U, least, **PROGRAMME)
        yield close(f"U and ranks, slice {k}", U, partners)


Table = Callable[[int, int], Array]
COUNTS = ((6, 4), (4, 6), (3, 8), (2, 12))


def _hat(n: int, m: int) -> Array:
    r"""The interpolating hat $\max(0, 1 - M|i/N - j/M|)$ as a matrix."""
    return np.maximum(1 - _distance(n, m), 0)


@statement(
    "shahbazi2025:eq-11",
    source="Eq. (11)",
    claim=r"For $N$ queries and $M$ keys $U = \frac1N A^\top IB$ with $I_{ij} = "
    r"N\,|[\frac{i-1}N, \frac iN]\cap[\frac{j-1}M, \frac jM]|$ is the optimal plan of "
    r"the slice, and its marginals are uniform.",
    control=(
        r"the interpolating hat $\max(0, 1 - M|i/N - j/M|)$ in place of the overlap",
        {"table": _hat},
        tuple(f"{label}, 6 × 4" for label in ("row sums", "programme", "library")),
    ),
)
def overlaps(case: Case, *, table: Table = ref.overlap) -> Checks:
    """Compares AᵀIB/N with the library's plan and a linear programme.

    The numbers of queries and keys range from 6 × 4 to 2 × 12; the library takes
    queries and keys as two measures.
    """
    attention = lib.sliced_attention(lib.identity_parameters(1), np.ones((1, 1)))
    for n, m in COUNTS:
        rng = case.rng(f"{n} by {m}")
        a, b = rng.normal(size=n), rng.normal(size=m)
        A, B = ref.permutation(a), ref.permutation(b)
        U = A.T @ table(n, m) @ B / n
        cost, even = (a[:, None] - b[None, :]) ** 2, (np.ones(n) / n, np.ones(m) / m)
        sides = uniform_cloud(a[:, None]), uniform_cloud(b[:, None])
        yield close(f"row sums, {n} × {m}", U.sum(axis=1), even[0])
        yield close(f"column sums, {n} × {m}", U.sum(axis=0), even[1])
        least, _ = programme(cost, *even)
        yield gap(f"programme, {n} × {m}", U, least, **PROGRAMME)
        yield close(f"library, {n} × {m}", lib.plan_across(attention, *sides), U)


def _distance(n: int, m: int) -> Array:
    i, j = np.arange(1, n + 1), np.arange(1, m + 1)
    return m * np.abs(i[:, None] / n - j[None, :] / m)


@overlaps.register_misprint(
    "H1",
    claim=r"$I_{ij} = M|i/N - j/M|$ where that is at most one, and zero elsewhere.",
    correction=r"$I_{ij} = N\,|[\frac{i-1}N, \frac iN]\cap[\frac{j-1}M, \frac jM]|$; "
    r"with the hat $1 - M|i/N - j/M|$, too, sums are not one.",
    counterexample="five queries and five keys; six and four; four and six",
)
def _(_: Case) -> Counterexample:
    printed_table = lambda n, m: np.where(_distance(n, m) <= 1, _distance(n, m), 0.0)
    return Counterexample(_sums(printed_table), _sums(ref.overlap))


def _sums(table: Table) -> Checks:
    """Checks sums of tables of overlaps, and that I is the identity matrix if N = M."""
    tall, wide, label = table(6, 4), table(4, 6), "column sums of I over N/M"
    yield close("I and the identity, 5 × 5", table(5, 5), np.eye(5))
    yield close("row sums of I, 6 × 4", tall.sum(axis=1), np.ones(6))
    yield close(f"{label}, 6 × 4", tall.sum(axis=0) / 1.5, np.ones(4))
    yield close(f"{label}, 4 × 6", wide.sum(axis=0) * 1.5, np.ones(6))
