r"""Gaussians under sliced attention, softly sorted by squared distances.

With $\beta = s^2/(s^2 + t/2)$, the row of quantile $z$ in the soft sort of queries is
their law times a Gaussian of variance $t/2$: it is normal, with mean $m_Q +
s_Q\beta_Qz$ and variance $s_Q^2(1 - \beta_Q)$; for keys alike. So under the published
plan $(z, q, k)$ is normal, with $z \sim N(0, 1)$ and, given $z$, independent $q$ and
$k$. Queries then have the variance $W = s_Q^2(1 - \beta_Q + \beta_Q^2)$ in place of
$s_Q^2$, $E[z\,|\,q] = s_Q\beta_Q(q - m_Q)/W$, and the sum of a row is the ratio of the
two densities of $q$. ERRATA N2' has $\tau' = t/2$ and $p' = W/(s_Q^2\beta_Q)$.
"""

from typing import NamedTuple

from scipy.special import ndtri, softmax

from meanfield.attention import Attention, attentions
from meanfield.theorems._arrays import Array, Binary, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded, gap
from meanfield.theorems._vocabulary import Parameters
from meanfield.theorems.library import attentions as att

from ._ranks import Sliced, drawn, moved_by, slopes

TEMPERATURES = (1.0, 0.3, 0.1)
SHAPES = ((1, 1, 1), (3, 2, 2))  # d, k, and the rank of the covariance
REACH, CELLS = 8.5, 170  # of trapezoids, in standard deviations
TRAPEZOID = Slack(
    tolerance=1e-11,
    why="trapezoids of width 0.1 deviations out to 8.5, of Gaussians no narrower than "
    "0.2: beyond the ends 1e-16, between nodes exp(-2π²·4)",
)
ROUNDING = Slack(tolerance=1e-11, why="rounding of a thousand terms")
QUANTILES = "twice what half as many quantiles change"


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
    remark=r"Of several slices, the mean by shares. The limit is one for each token, "
    r"unlike that of the hard sort.",
    control=(
        "rows are left as published, and sum to other numbers than one",
        {"rows": lambda moved, sums: moved + 0 * sums[:, None]},
        ("velocity, normalised, …",),
    ),
)
def soft(
    case: Case, *, rows: Binary = lambda moved, sums: moved / sums[:, None]
) -> Checks:
    r"""The definition of the plan by trapezoids, in d = 1, and of rank two in d = 3.

    At t = 1, 0.3 and 0.1: the library's closed form, velocities before and after rows
    are normalised, sums of rows, and mean costs $|Qx - Ky|^2$ of both plans. The
    library's closed form of three slices, which those costs weigh. On the line the
    published velocities of 1 000 shuffled quantiles, sorted, too.
    """
    for shape in SHAPES:
        for t in TEMPERATURES:
            yield from _by_nodes(_spread_out(case, shape), t, rows)
    # The library's slope of three slices, each weighted by its cost, at t = 0.7.
    at, t, tau = drawn(case.rng("three slices"), (3, 2, 3), 3), 0.7, 0.8
    each = [_Soft(at._replace(directions=row[None]), t) for row in at.directions]
    shares = softmax([-tau * one.costs()[1] for one in each])
    hard = slopes(at.p, at.directions, at.law.covariance)
    parts = [s * one.share * L for s, one, L in zip(shares, each, hard, strict=True)]
    slope, _ = moved_by(_variant("esp-soft", at, t, tau), at.law)
    yield gap("three slices, τ = 0.8", slope, at.p.V @ np.sum(parts, 0), **ROUNDING)
    yield from _by_quantiles(case)


def _variant(name: str, at: Sliced, t: float, tau: float = 0.0) -> Attention:
    """The library's, on the same slices."""
    p, options = at.p, {"slices": at.directions, "temperature": t, "tau": tau}
    return attentions[name](p.Q, p.K, p.V, **options)


def _spread_out(case: Case, shape: tuple[int, int, int]) -> Sliced:
    """A problem of one slice, along which queries and keys have deviations near one."""
    at = drawn(case.rng(f"{shape}"), shape, 1)
    rng = case.rng(f"{shape}: deviations")
    soft = _Soft(at, 1.0)
    both = zip(at.p[:2], soft.spread, strict=True)
    Q, K = (M * rng.uniform(0.7, 1.4) / s for M, s in both)
    return at._replace(p=at.p._replace(Q=Q, K=K))


class _Soft(NamedTuple):
    """One slice of a Gaussian, softly sorted at a temperature: the closed forms."""

    at: Sliced
    t: float

    @property
    def along(self) -> tuple[Array, Array]:
        r"""$Q^\top\theta$ and $K^\top\theta$."""
        (direction,) = self.at.directions
        return direction @ self.at.p.Q, direction @ self.at.p.K

    @property
    def spread(self) -> Array:
        r"""$(s_Q, s_K)$."""
        return np.array([np.linalg.norm(a @ self.at.law.factor) for a in self.along])

    @property
    def beta(self) -> Array:
        r"""$(\beta_Q, \beta_K)$."""
        return self.spread**2 / (self.spread**2 + self.t / 2)

    @property
    def w(self) -> float:
        r"""$1 - \beta_Q + \beta_Q^2$."""
        return float(1 - self.beta[0] + self.beta[0] ** 2)

    @property
    def share(self) -> float:
        """Of the hard sort's slope."""
        return float(np.prod(self.beta)) / self.w

    def sums(self, x: Array) -> Array:
        """Of rows, at tokens."""
        q = (x - self.at.law.mean) @ self.along[0] / self.spread[0]
        beta = self.beta[0]
        return np.exp(-beta * (1 - beta) * q**2 / (2 * self.w)) / np.sqrt(self.w)

    def velocity(self, x: Array) -> Array:
        """At tokens, once rows are normalised."""
        p, law, directions = self.at
        (hard,) = slopes(p, directions, law.covariance)
        return (law.mean + self.share * (x - law.mean) @ hard.T) @ p.V.T

    def costs(self) -> Array:
        r"""$\int|Qx - Ky|^2$ of the published plan, and with rows normalised.

        From the moments of $(q, k)$: the coordinates across the slice follow them
        linearly, with $S_Q\theta/s_Q^2$ and $S_K\theta/s_K^2$.
        """
        p, law, (direction,) = self.at
        S_Q, S_K = (M @ law.covariance @ M.T for M in (p.Q, p.K))
        pulls = [S_Q @ direction / self.spread[0], S_K @ direction / self.spread[1]]
        own, (beta_q, beta_k) = [a @ a for a in pulls], self.beta
        whole = np.sum(((p.Q - p.K) @ law.mean) ** 2) + np.trace(S_Q) + np.trace(S_K)
        shared = 2 * pulls[0] @ pulls[1]
        lost = own[0] * beta_q * (1 - beta_q) + own[1] * beta_k * (1 - beta_k)
        published = whole - lost - shared * beta_q * beta_k
        # Of z once rows are normalised, when queries keep their variance.
        variance = (beta_q / self.w) ** 2 + (1 - beta_q) / self.w
        gained = own[1] * (beta_k**2 * variance - beta_k)
        return np.array([published, whole + gained - shared * self.share])


def _nodes(r: int) -> tuple[Array, Array]:
    """Trapezoids for a standard Gaussian in `r` dimensions, and their masses."""
    line = np.linspace(-REACH, REACH, CELLS + 1)
    z = np.stack(np.meshgrid(*[line] * r, indexing="ij"), -1).reshape(-1, r)
    mass = np.exp(-np.sum(z**2, axis=1) / 2)
    return z, mass / mass.sum()


def _kernel(places: Array, quantiles: Array, mass: Array, t: float) -> Array:
    """Rows of a soft sort: one for each quantile, over tokens of these masses."""
    logs = -((quantiles[:, None] - places[None, :]) ** 2) / t
    kernel = np.exp(logs) * mass[None, :]
    return kernel / kernel.sum(axis=1, keepdims=True)


class _Plan(NamedTuple):
    """The published plan of the whole law, from its definition, by trapezoids."""

    x: Array  # tokens
    mass: Array  # of each token
    share: Array  # of each quantile
    # rows of the soft sorts of queries and of keys, one for each quantile
    kernels: tuple[Array, Array]
    near: Array  # which tokens are within two deviations

    def moved(self) -> tuple[Array, Array]:
        """What the tokens `near` get of keys, and the sums of their rows."""
        A, B = self.kernels
        given = A[:, self.near].T / self.mass[self.near, None]
        return given @ (self.share[:, None] * (B @ self.x)), given @ self.share

    def costs(self, p: Parameters) -> Array:
        """Mean costs, and with its rows normalised."""
        queries, keys, (A, B) = self.x @ p.Q.T, self.x @ p.K.T, self.kernels
        middle, square = B @ keys, B @ np.sum(keys**2, axis=1)
        sums = np.maximum(A.T @ self.share, np.finfo(float).tiny)
        means = []
        for weights in (np.ones_like(self.mass), self.mass / sums):
            plan = self.share[:, None] * A * weights  # of quantiles and queries
            own = np.sum(plan @ np.sum(queries**2, axis=1))
            cross = np.sum((plan @ queries) * middle)
            means.append(own + np.sum(plan, axis=1) @ square - 2 * cross)
        return np.array(means)


def _plan(exact: _Soft) -> _Plan:
    law = exact.at.law
    z, mass = _nodes(law.factor.shape[1])
    (line, share), x = _nodes(1), law.mean + z @ law.factor.T
    A, B = (
        _kernel(x @ a, law.mean @ a + s * line[:, 0], mass, exact.t)
        for a, s in zip(exact.along, exact.spread, strict=True)
    )
    near = np.flatnonzero(np.sum(z**2, axis=1) <= 4)
    return _Plan(x, mass, share, (A, B), near)


def _by_nodes(at: Sliced, t: float, rows: Binary) -> Checks:
    """The plan, and the library's closed form, against ours."""
    exact, (p, law, _) = _Soft(at, t), at
    plan = _plan(exact)
    x, (means, sums) = plan.x[plan.near], plan.moved()
    moved, own, apart = means @ p.V.T, exact.velocity(x), exact.sums(x)
    slope, middle = moved_by(_variant("esp-soft", at, t), law)
    library = middle + (x - law.mean) @ slope.T
    name = f"d = {len(law.mean)}, t = {t}"
    yield gap(f"library, {name}", library, own, **ROUNDING)
    yield gap(f"velocity, normalised, {name}", rows(moved, sums), own, **TRAPEZOID)
    yield gap(f"velocity, published, {name}", moved, own * apart[:, None], **TRAPEZOID)
    yield gap(f"sums of rows, {name}", sums, apart, **TRAPEZOID)
    yield gap(f"costs, {name}", plan.costs(p), exact.costs(), **TRAPEZOID)


def _by_quantiles(case: Case) -> Checks:
    """Shuffled quantiles on the line, sorted, as published, at t = 0.3."""
    at, t = _spread_out(case, SHAPES[0]), 0.3
    exact, rng = _Soft(at, t), case.rng("shuffle")
    probes = at.law.mean + np.linspace(-2, 2, 9)[:, None] * at.law.factor.T
    quantiles = [rng.permutation(ndtri((np.arange(n) + 0.5) / n)) for n in (500, 1000)]
    half, full = (_published(exact, z, probes) for z in quantiles)
    x = at.law.mean + quantiles[1][:, None] * at.law.factor.T
    published = _variant("esp-soft-published", at, t)
    library = att.velocity(published, att.bare(x), att.bare(probes))
    expected = exact.velocity(probes) * exact.sums(probes)[:, None]
    size = np.max(np.abs(expected))
    why = Slack(tolerance=2 * np.max(np.abs(full - half)) / size, why=QUANTILES)
    spread = np.ptp(exact.sums(probes))
    yield gap("library, 1000 quantiles, t = 0.3", library, full, **ROUNDING)
    yield gap("1000 quantiles, published, t = 0.3", full, expected, **why)
    yield bounded("sums of rows: largest less smallest, t = 0.3", spread, ">=", 0.01)


def _published(exact: _Soft, z: Array, probes: Array) -> Array:
    """Velocities at probes by the published formula: sort, and softmax of distances."""
    p, law, _ = exact.at
    x = law.mean + z[:, None] * law.factor.T
    even = np.full(len(x), 1 / len(x))
    to_query, to_key = exact.along
    keys = _kernel(x @ to_key, np.sort(x @ to_key), even, exact.t)
    ranks = np.sort(x @ to_query)[:, None]
    norms = np.exp(-((ranks - (x @ to_query)[None, :]) ** 2) / exact.t).sum(axis=1)
    at_probes = np.exp(-((ranks - (probes @ to_query)[None, :]) ** 2) / exact.t)
    return (at_probes / norms[:, None]).T @ (keys @ x) @ p.V.T
