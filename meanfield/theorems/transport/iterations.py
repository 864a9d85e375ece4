"""Entropic transport between Gaussians: Sinkhorn's iterations."""

from collections.abc import Callable

from meanfield.measures.sampling import gauss_hermite
from meanfield.scores import SquaredDistance, Transposed
from meanfield.theorems._arrays import Array, JaxArray, Unary, columns, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.tokens import Tokens

from ._couplings import Pair, by_nodes, each, pairs, recursion, slopes

REACH = 0.125
ORDER = 20
EXACT = Slack(tolerance=1e-10, why="inverses of matrices of condition below 1e5")
NEAR = Slack(
    tolerance=1e-9,
    why="Gauss–Hermite error of tilts of at most 1/4, 16 nodes an axis and more: "
    "below 1e-12 by self-convergence",
)


@statement(
    "castin2025:lemma-A.4",
    source="Lemma A.4, appendix A",
    claim=r"With $q_X(x) = -\frac12 x^\top Xx$, $T(q_X) = q_Y$ up to a constant, where "
    r"$Y = (AX'^{-1}A^\top - K^\top K)/\epsilon$ and $X' = Q^\top Q + "
    r"\epsilon\Sigma^{-1} + \epsilon X \succ 0$; the other half-step is the mirror.",
    hypotheses=r"$\Sigma \succ 0$, centred, $X' \succ 0$; means add a linear term",
    remark="In (i) the variable of the image is y, printed as x.",
    control=(
        "the squares QᵀQ and KᵀK are left out, as for a dot product",
        {"square": 0.0},
    ),
)
def mapped(case: Case, *, square: float = 1.0) -> Checks:
    r"""The library's log-integrals over its own Gauss–Hermite nodes, both half-steps.

    With scores $-|Qx - Ky|^2/2\epsilon$ and indefinite X, against the quadratic worked
    out by completing the square: curvature Y of the lemma and the constant of a centred
    potential; for other means and potentials the linear term too.
    """
    rng = case.rng("quadratics")
    stack = lib.ensemble(rng, (2, 3, 2), 2, reach=REACH)
    for m, name in zip(lib.members(stack), ("centred", "any mean"), strict=True):
        centred = name == "centred"
        m = m._replace(mean=np.zeros(2) if centred else m.mean)
        raw = rng.normal(size=(2, 2))
        white = raw + raw.T
        inverse = np.linalg.inv(m.factor)
        X = inverse.T @ white @ inverse * 0.25 / np.linalg.norm(white, 2)
        slope = np.zeros(2) if centred else rng.normal(size=2) / 4
        probes = rng.normal(size=(6, 2))
        given = [jnp.asarray(part) for part in (X, slope, probes)]
        found = _transforms(lib.on_device(m), *given)
        ways = (("keys", m), ("queries", m._replace(Q=m.K, K=m.Q)))
        for actual, (way, n) in zip(found, ways, strict=True):
            expected = _transformed(n, X, slope, square)(probes)
            yield gap(f"T of a quadratic, {name}, to {way}", actual, expected, **NEAR)


@eqx.filter_jit
def _transforms(
    m: Member, X: JaxArray, slope: JaxArray, probes: JaxArray
) -> tuple[JaxArray, JaxArray]:
    """$T$ of a quadratic, to keys and to queries, by the library on its own nodes."""
    mu = gauss_hermite(lib.gaussian(m), order=ORDER)
    x = mu.tokens.x
    given = -((x @ X) * x).sum(axis=1) / 2 + x @ slope
    score = SquaredDistance(m.Q, m.K, 2 * jnp.asarray(m.epsilon))
    to_keys = -mu.log_integral(Transposed(score), Tokens(probes), given)
    return to_keys, -mu.log_integral(score, Tokens(probes), given)


def _transformed(m: Member, X: Array, slope: Array, square: float) -> Unary:
    r"""$T$ of the quadratic, constant included, worked out by completing the square.

    $Y$ and $X'$ of the lemma have $Q^\top Q$ and $K^\top K$ as often as `square` says.
    """
    A, precision = m.K.T @ m.Q, np.linalg.inv(m.covariance)
    primed = square * m.Q.T @ m.Q + m.epsilon * (precision + X)
    Y = (A @ np.linalg.solve(primed, A.T) - square * m.K.T @ m.K) / m.epsilon
    start = np.linalg.solve(m.covariance, m.mean) + slope
    P = m.epsilon * np.linalg.inv(primed)
    cross = A @ P @ start / m.epsilon
    volume = np.linalg.slogdet(np.linalg.solve(P, m.covariance))[1]
    constant = (m.mean @ np.linalg.solve(m.covariance, m.mean) - start @ P @ start) / 2
    return lambda y: (
        -np.sum((y @ Y) * y, axis=1) / 2 - y @ cross + constant + volume / 2
    )


Rule = Callable[[Pair, int], Array]


def _in_turn(p: Pair, steps: int) -> Array:
    """$G_n$ where each line uses the newest of the other."""
    return recursion(p, steps)[1]


def _mistaken(p: Pair, steps: int) -> Array:
    """$G_n$ with A for its transpose in one line."""
    A, e = p.A, p.epsilon
    G = e * np.linalg.inv(p.Omega)
    for _ in range(steps):
        F = e * np.linalg.inv(p.Sigma) + A.T @ np.linalg.solve(G, A)
        G = e * np.linalg.inv(p.Omega) + A.T @ np.linalg.solve(F, A)
    return G


@statement(
    "castin2025:eq-A.9",
    source="Eq. (A.9), appendix A",
    claim=r"Sinkhorn's potentials stay quadratic, with $G_{n+1} = "
    r"\epsilon\Omega^{-1} + AF_n^{-1}A^\top$ and then $F_{n+1} = "
    r"\epsilon\Sigma^{-1} + A^\top G_{n+1}^{-1}A$: each uses the newest of the other.",
    hypotheses=r"$\Sigma, \Omega \succ 0$; from $g = 0$ and a half-step of rows, "
    r"$G_0 = \epsilon\Omega^{-1}$ and $F_0 = \epsilon\Sigma^{-1} + A^\top G_0^{-1}A$",
    control=(
        "A stands for its transpose in the line of G",
        {"rule": _mistaken},
        ("G⁻¹A…",),
    ),
)
def halves(case: Case, *, rule: Rule = _in_turn) -> Checks:
    """Slopes of E[y | x] after 3, 5, … half-steps are $G_n^{-1}A$, G by the recursion.

    Against the library's closed form of truncated Sinkhorn for two Gaussians (by
    their product), against its particles on its own nodes for one, and against
    log-domain Sinkhorn between Gauss–Hermite nodes in NumPy; and E[y | x] itself, means
    not zero, by the library and between nodes.
    """
    yield from _by_library(case, rule)
    # The same on nodes: by NumPy for a pair, by the library for one Gaussian.
    p, q = each(pairs(case.rng("nodes"), 2, 3, 2, reach=0.25))
    q = q._replace(beta=q.alpha, Omega=q.Sigma)
    factor = np.linalg.cholesky(q.Sigma)
    m = Member(q.alpha, factor, q.Q, q.K, np.eye(2), q.epsilon)
    given = lib.on_device(m)
    probes = jnp.asarray(np.vstack([m.mean, m.mean + np.eye(2)]))
    for n in case.pick((1, 2), (1, 2, 3)):
        moved = np.asarray(_on_points(given, probes, 2 * n + 1))
        slope = lambda r, n=n: np.linalg.solve(rule(r, n), r.A)
        ours, theirs = by_nodes(p, n).slope, (moved[1:] - moved[:1]).T
        at = f"{2 * n + 1} half-steps"
        yield gap(f"G⁻¹A, nodes, {at}", ours, slope(p), **NEAR)
        yield gap(f"G⁻¹A, library on nodes, {at}", theirs, slope(q), **NEAR)
    yield from _means(case)


@halves.misprinted(
    "C25",
    printed=r"read as $F_{n+1} = \epsilon\Sigma^{-1} + A^\top G_n^{-1}A$ and $G_{n+1} "
    r"= \epsilon\Omega^{-1} + AF_n^{-1}A^\top$, each from the old of the other",
    corrected=r"the line of $F_{n+1}$ has $G_{n+1}^{-1}$, as (A.7) does",
    counterexample=r"generic Gaussians in the plane, three and five half-steps; the "
    r"print from $f = g = 0$, so $F_0 = \epsilon\Sigma^{-1}$",
)
def _(case: Case) -> Counterexample:
    """Slopes after half-steps, by both rules."""
    return Counterexample(_by_library(case, _at_once), _by_library(case, _in_turn))


def _at_once(p: Pair, steps: int) -> Array:
    """$G_n$ where both lines use the old of the other."""
    A, e = p.A, p.epsilon
    row, column = e * np.linalg.inv(p.Sigma), e * np.linalg.inv(p.Omega)
    F, G = row, column
    for _ in range(steps):
        old = F, G
        F = row + A.T @ np.linalg.solve(old[1], A)
        G = column + A @ np.linalg.solve(old[0], A.T)
    return G


@eqx.filter_jit
def _on_points(m: Member, probes: JaxArray, iterations: int) -> JaxArray:
    mu = gauss_hermite(lib.gaussian(m), order=16)
    made = lib.attention("sinkhorn", m, iterations=iterations)
    return made.field(0.0, mu)(Tokens(probes)) * m.epsilon


def _by_library(case: Case, rule: Rule) -> Checks:
    """The library's closed form after half-steps against the slopes of a rule."""
    stack = pairs(case.rng("pairs"), 2, 3, case.pick(4, 20))
    for n in case.pick((1, 2), (1, 2, 3)):
        found = slopes(stack, iterations=2 * n + 1)
        expected = [np.linalg.solve(rule(p, n), p.A) for p in each(stack)]
        label = f"G⁻¹A, library, {2 * n + 1} half-steps"
        yield gap(label, found, np.array(expected), **EXACT)


def _means(case: Case) -> Checks:
    """E[y | x] itself after half-steps, means not zero: the library's closed form."""
    q = next(each(pairs(case.rng("means"), 2, 3, 1, reach=0.25)))
    q = q._replace(beta=q.alpha, Omega=q.Sigma)
    factor = np.linalg.cholesky(q.Sigma)
    m = Member(q.alpha, factor, q.Q, q.K, np.eye(2), q.epsilon)
    stack = Member(*columns([m]))
    for n in case.pick((1,), (1, 2)):
        found = by_nodes(q, n)
        w = found.plan.sum(axis=1)
        near = np.argsort(w)[-6:]
        brute = found.plan[near] @ found.y / w[near, None]
        moved = lib.rates("sinkhorn", stack, found.x[None, near], iterations=2 * n + 1)
        label = f"E[y | x], library, {2 * n + 1} half-steps"
        yield gap(label, moved.velocity[0] * q.epsilon, brute, **NEAR)
