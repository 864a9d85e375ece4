r"""Gaussians under sliced attention with soft sorting by squared distances.

Let $\beta = s^2/(s^2 + t/2)$. In the soft sort of queries, the row of quantile $z$ is
the law of the queries times a Gaussian of variance $t/2$. So it is normal, with mean
$m_Q + s_Q\beta_Qz$ and variance $s_Q^2(1 - \beta_Q)$; the same holds for keys. Under
the published plan $(z, q, k)$ is therefore normal, with $z \sim N(0, 1)$ and, given
$z$, independent $q$ and $k$. Queries have the variance $W = s_Q^2(1 - \beta_Q +
\beta_Q^2)$ instead of $s_Q^2$, and $E[z\,|\,q] = s_Q\beta_Q(q - m_Q)/W$. The sum of a
row is the ratio of the two densities of $q$. ERRATA N2' writes $\tau' = t/2$ and $p' =
W/(s_Q^2\beta_Q)$.
"""

from typing import NamedTuple

from scipy.special import ndtri, softmax

from meanfield.attention import Attention, attentions
from meanfield.theorems._arrays import Array, Binary, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems._vocabulary import Parameters
from meanfield.theorems.library import attentions as att

from ._ranks import SlicedProblem, affine_velocity, draw_problem, linear_parts

TEMPERATURES = (1.0, 0.3, 0.1)
SHAPES = ((1, 1, 1), (3, 2, 2))  # triples (d, k, rank of the covariance)
REACH, CELLS = 8.5, 170  # largest node in standard deviations; number of trapezoids
TRAPEZOID = Slack(
    tolerance=1e-11,
    why="trapezoids of width 0.1 deviations out to 8.5, of Gaussians no narrower than "
    "0.2: beyond the ends 1e-16, between nodes exp(-2π²·4)",
)
ROUNDING = Slack(tolerance=1e-11, why="rounding of a thousand terms")
QUANTILES = "twice the change from half as many quantiles"


@statement(
    "new:N2-softsort",
    source="ERRATA, N2'",
    claim=r"Softly sorted at temperature $t$ by squared distances, with $\beta = "
    r"s^2/(s^2 + t/2)$ and $w = 1 - \beta_Q + \beta_Q^2$, a slice gives a token at "
    r"$q = \theta\cdot Qx$ the velocity $r(q)V\bigl(\alpha + "
    r"\frac{\beta_K\beta_Q}{w}\frac{\Sigma K^\top\theta}{s_Qs_K}(q - m_Q)\bigr)$, "
    r"where $r(q) = w^{-1/2}e^{-\beta_Q(1 - \beta_Q)(q - m_Q)^2/2ws_Q^2}$ is the sum "
    r"of its row: once rows are normalised, and only then, Gaussians stay Gaussian.",
    hypotheses=r"$N(\alpha, \Sigma)$ with any $\Sigma$, one slice, $s_Q, s_K > 0$",
    remark=r"Several slices give the mean weighted by shares. The limit holds for each "
    r"token, unlike that of the hard sort.",
    control=(
        "rows are left as published and do not sum to one",
        {"rows": lambda velocities, sums: velocities + 0 * sums[:, None]},
        ("velocity, normalised, …",),
    ),
)
def soft_sort_limit(
    case: Case, *, rows: Binary = lambda velocities, sums: velocities / sums[:, None]
) -> Checks:
    """Compares closed forms of the soft sort with the definition of its plan.

    The trapezoidal rule evaluates the definition. The cases are d = 1, and rank two in
    d = 3, at t = 1, 0.3 and 0.1. Velocities and mean costs $|Qx - Ky|^2$, before and
    after normalising rows, and the sums of rows are compared. The library's closed form
    is compared in these cases, and for three slices weighted by their costs. On the
    line, published velocities of 1000 shuffled quantiles are compared too.
    """
    for shape in SHAPES:
        for t in TEMPERATURES:
            yield from _node_checks(_unit_problem(case, shape), t, rows)
    # For three cost-weighted slices, the library's linear part is compared at t = 0.7.
    problem, t, tau = draw_problem(case.rng("three slices"), (3, 2, 3), 3), 0.7, 0.8
    soft_slices = [
        _SoftSlice(problem._replace(directions=row[None]), t)
        for row in problem.directions
    ]
    shares = softmax([-tau * soft_slice.costs()[1] for soft_slice in soft_slices])
    hard = linear_parts(problem, problem.law.covariance)
    parts = [
        s * soft_slice.share * L
        for s, soft_slice, L in zip(shares, soft_slices, hard, strict=True)
    ]
    linear, _ = affine_velocity(_variant("esp-soft", problem, t, tau), problem.law)
    total = problem.p.V @ np.sum(parts, 0)
    yield gap("three slices, τ = 0.8", linear, total, **ROUNDING)
    yield from _quantile_checks(case)


def _variant(
    name: str, problem: SlicedProblem, t: float, tau: float = 0.0
) -> Attention:
    """The library's variant `name`, with the slices of the problem."""
    p, options = problem.p, {"slices": problem.directions, "temperature": t, "tau": tau}
    return attentions[name](p.Q, p.K, p.V, **options)


def _unit_problem(case: Case, shape: tuple[int, int, int]) -> SlicedProblem:
    """Problem with one slice, along which queries and keys have deviations near one."""
    problem = draw_problem(case.rng(f"{shape}"), shape, 1)
    rng = case.rng(f"{shape}: deviations")
    pairs = zip(problem.p[:2], _SoftSlice(problem, 1.0).spread, strict=True)
    Q, K = (M * rng.uniform(0.7, 1.4) / s for M, s in pairs)
    return problem._replace(p=problem.p._replace(Q=Q, K=K))


class _SoftSlice(NamedTuple):
    """Closed forms for one slice of a Gaussian, softly sorted at temperature `t`."""

    problem: SlicedProblem
    t: float

    @property
    def axes(self) -> tuple[Array, Array]:
        r"""$Q^\top\theta$ and $K^\top\theta$."""
        (direction,) = self.problem.directions
        return direction @ self.problem.p.Q, direction @ self.problem.p.K

    @property
    def spread(self) -> Array:
        r"""$(s_Q, s_K)$."""
        return np.array(
            [np.linalg.norm(a @ self.problem.law.factor) for a in self.axes]
        )

    @property
    def beta(self) -> Array:
        r"""$(\beta_Q, \beta_K)$."""
        return self.spread**2 / (self.spread**2 + self.t / 2)

    @property
    def w(self) -> float:
        r"""The number $w = 1 - \beta_Q + \beta_Q^2$ of the claim."""
        return float(1 - self.beta[0] + self.beta[0] ** 2)

    @property
    def share(self) -> float:
        """Quotient of the linear parts under the soft and under the hard sort."""
        return float(np.prod(self.beta)) / self.w

    def sums(self, x: Array) -> Array:
        """Sums of the rows that belong to the tokens `x`."""
        q = (x - self.problem.law.mean) @ self.axes[0] / self.spread[0]
        beta = self.beta[0]
        return np.exp(-beta * (1 - beta) * q**2 / (2 * self.w)) / np.sqrt(self.w)

    def velocity(self, x: Array) -> Array:
        """Velocities of tokens `x` under the plan with normalised rows."""
        p, law, _ = self.problem
        (hard,) = linear_parts(self.problem, law.covariance)
        return (law.mean + self.share * (x - law.mean) @ hard.T) @ p.V.T

    def costs(self) -> Array:
        r"""Costs $\int|Qx - Ky|^2$ of the plan, without and with normalised rows.

        The costs follow from the moments of $(q, k)$. The other coordinates depend on
        $q$ and $k$ linearly, with slopes $S_Q\theta/s_Q^2$ and $S_K\theta/s_K^2$.
        """
        p, law, (direction,) = self.problem
        S_Q, S_K = (M @ law.covariance @ M.T for M in (p.Q, p.K))
        pulls = [S_Q @ direction / self.spread[0], S_K @ direction / self.spread[1]]
        squares, (beta_q, beta_k) = [a @ a for a in pulls], self.beta
        whole = np.sum(((p.Q - p.K) @ law.mean) ** 2) + np.trace(S_Q) + np.trace(S_K)
        overlap = 2 * pulls[0] @ pulls[1]
        loss = squares[0] * beta_q * (1 - beta_q) + squares[1] * beta_k * (1 - beta_k)
        published_cost = whole - loss - overlap * beta_q * beta_k
        # The number `variance` is the variance of z if rows are normalised and queries
        # keep their variance.
        variance = (beta_q / self.w) ** 2 + (1 - beta_q) / self.w
        gain = squares[1] * (beta_k**2 * variance - beta_k)
        return np.array([published_cost, whole + gain - overlap * self.share])


def _nodes(r: int) -> tuple[Array, Array]:
    """Trapezoidal nodes for a standard Gaussian in `r` dimensions, and their masses."""
    line = np.linspace(-REACH, REACH, CELLS + 1)
    z = np.stack(np.meshgrid(*[line] * r, indexing="ij"), -1).reshape(-1, r)
    mass = np.exp(-np.sum(z**2, axis=1) / 2)
    return z, mass / mass.sum()


def _kernel(places: Array, quantiles: Array, mass: Array, t: float) -> Array:
    """Rows of a soft sort, one for each quantile, over tokens of the given masses."""
    logs = -((quantiles[:, None] - places[None, :]) ** 2) / t
    kernel = np.exp(logs) * mass[None, :]
    return kernel / kernel.sum(axis=1, keepdims=True)


class _Plan(NamedTuple):
    """Published plan of a Gaussian, from its definition by the trapezoidal rule."""

    x: Array  # tokens
    mass: Array  # masses of the tokens
    share: Array  # masses of the quantiles
    # Each kernel has one row per quantile: the first sorts queries, the second keys.
    kernels: tuple[Array, Array]
    central: Array  # indices of tokens within two standard deviations of the mean

    def outputs(self) -> tuple[Array, Array]:
        """Products of the `central` rows with all tokens, and sums of these rows."""
        A, B = self.kernels
        rows = A[:, self.central].T / self.mass[self.central, None]
        return rows @ (self.share[:, None] * (B @ self.x)), rows @ self.share

    def costs(self, p: Parameters) -> Array:
        """Mean costs of the published plan, without and with normalised rows."""
        queries, keys, (A, B) = self.x @ p.Q.T, self.x @ p.K.T, self.kernels
        middle, square = B @ keys, B @ np.sum(keys**2, axis=1)
        sums = np.maximum(A.T @ self.share, np.finfo(float).tiny)
        means = []
        for weights in (np.ones_like(self.mass), self.mass / sums):
            plan = self.share[:, None] * A * weights  # one row per quantile
            query_cost = np.sum(plan @ np.sum(queries**2, axis=1))
            cross = np.sum((plan @ queries) * middle)
            means.append(query_cost + np.sum(plan, axis=1) @ square - 2 * cross)
        return np.array(means)


def _plan(exact: _SoftSlice) -> _Plan:
    law = exact.problem.law
    z, mass = _nodes(law.factor.shape[1])
    (line, share), x = _nodes(1), law.mean + z @ law.factor.T
    A, B = (
        _kernel(x @ a, law.mean @ a + s * line[:, 0], mass, exact.t)
        for a, s in zip(exact.axes, exact.spread, strict=True)
    )
    central = np.flatnonzero(np.sum(z**2, axis=1) <= 4)
    return _Plan(x, mass, share, (A, B), central)


def _node_checks(problem: SlicedProblem, t: float, rows: Binary) -> Checks:
    """Compares the plan and the library's closed form with `_SoftSlice`."""
    exact, (p, law, _) = _SoftSlice(problem, t), problem
    plan = _plan(exact)
    x, (means, sums) = plan.x[plan.central], plan.outputs()
    velocities = means @ p.V.T
    expected = exact.velocity(x)
    expected_sums = exact.sums(x)
    linear, middle = affine_velocity(_variant("esp-soft", problem, t), law)
    library = middle + (x - law.mean) @ linear.T
    name = f"d = {len(law.mean)}, t = {t}"
    yield gap(f"library, {name}", library, expected, **ROUNDING)
    normalised_velocities = rows(velocities, sums)
    published_velocities = expected * expected_sums[:, None]
    label = f"velocity, normalised, {name}"
    yield gap(label, normalised_velocities, expected, **TRAPEZOID)
    label = f"velocity, published, {name}"
    yield gap(label, velocities, published_velocities, **TRAPEZOID)
    yield gap(f"sums of rows, {name}", sums, expected_sums, **TRAPEZOID)
    yield gap(f"costs, {name}", plan.costs(p), exact.costs(), **TRAPEZOID)


def _quantile_checks(case: Case) -> Checks:
    """Checks published velocities of shuffled quantiles on the line, at t = 0.3."""
    problem, t = _unit_problem(case, SHAPES[0]), 0.3
    exact, rng = _SoftSlice(problem, t), case.rng("shuffle")
    probes = problem.law.mean + np.linspace(-2, 2, 9)[:, None] * problem.law.factor.T
    quantiles = [rng.permutation(ndtri((np.arange(n) + 0.5) / n)) for n in (500, 1000)]
    half, full = (_published_velocities(exact, z, probes) for z in quantiles)
    x = problem.law.mean + quantiles[1][:, None] * problem.law.factor.T
    attention = _variant("esp-soft-published", problem, t)
    library = att.velocity(attention, att.uniform_cloud(x), att.uniform_cloud(probes))
    expected = exact.velocity(probes) * exact.sums(probes)[:, None]
    size = np.max(np.abs(expected))
    slack = Slack(tolerance=2 * np.max(np.abs(full - half)) / size, why=QUANTILES)
    spread = np.ptp(exact.sums(probes))
    yield gap("library, 1000 quantiles, t = 0.3", library, full, **ROUNDING)
    yield gap("1000 quantiles, published, t = 0.3", full, expected, **slack)
    yield compare("sums of rows: largest less smallest, t = 0.3", spread, ">=", 0.01)


def _published_velocities(exact: _SoftSlice, z: Array, probes: Array) -> Array:
    """Velocities at probes by the published rule: sorts, then softmax of distances.

    The distances are squared.
    """
    p, law, _ = exact.problem
    x = law.mean + z[:, None] * law.factor.T
    even = np.full(len(x), 1 / len(x))
    to_query, to_key = exact.axes
    keys = _kernel(x @ to_key, np.sort(x @ to_key), even, exact.t)
    ranks = np.sort(x @ to_query)[:, None]
    norms = np.exp(-((ranks - (x @ to_query)[None, :]) ** 2) / exact.t).sum(axis=1)
    probe_kernel = np.exp(-((ranks - (probes @ to_query)[None, :]) ** 2) / exact.t)
    return (probe_kernel / norms[:, None]).T @ (keys @ x) @ p.V.T
