"""Entropic transport between Gaussians: Sinkhorn's iterations."""

from collections.abc import Callable

from meanfield.measures.sampling import gauss_hermite
from meanfield.scores import SquaredDistance, TransposedScore
from meanfield.theorems._arrays import Array, JaxArray, Unary, columns, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.tokens import Tokens

from ._couplings import Pair, members, node_plan, pairs, recursion, regression_matrices

REACH = 0.125
ORDER = 20
EXACT = Slack(tolerance=1e-10, why="inverses of matrices of condition below 1e5")
QUADRATURE_SLACK = Slack(
    tolerance=1e-9,
    why="Gauss–Hermite error of tilts of at most 1/4, 16 nodes an axis and more: "
    "below 1e-12 by self-convergence",
)


@statement(
    "castin2025:lemma-A.4",
    source="Lemma A.4, appendix A",
    claim=r"With $q_X(x) = -\frac12 x^\top Xx$, $T(q_X) = q_Y$ up to a constant, where "
    r"$Y = (AX'^{-1}A^\top - K^\top K)/\epsilon$ and $X' = Q^\top Q + "
    r"\epsilon\Sigma^{-1} + \epsilon X \succ 0$; the other half-step follows by "
    r"exchanging $Q$ and $K$.",
    hypotheses=r"$\Sigma \succ 0$, centred, $X' \succ 0$; means add a linear term",
    remark="In (i) the variable of the image is y; it is printed as x.",
    control=(
        "the squares QᵀQ and KᵀK are left out, as for a dot product",
        {"square": 0.0},
    ),
)
def quadratic_potentials(case: Case, *, square: float = 1.0) -> Checks:
    r"""Compares the library's log-integrals over nodes with a quadratic.

    Both half-steps go over Gauss–Hermite nodes, with scores $-|Qx - Ky|^2/2\epsilon$
    and indefinite X. The quadratic comes from completing the square. For a centred
    potential it has the curvature Y of the lemma and a constant; for other means and
    potentials it also has a linear term.
    """
    rng = case.rng("quadratics")
    stack = lib.ensemble(rng, (2, 3, 2), 2, reach=REACH)
    for m, name in zip(lib.members(stack), ("centred", "any mean"), strict=True):
        is_centred = name == "centred"
        m = m._replace(mean=np.zeros(2) if is_centred else m.mean)
        raw = rng.normal(size=(2, 2))
        white = raw + raw.T
        inverse = np.linalg.inv(m.factor)
        X = inverse.T @ white @ inverse * 0.25 / np.linalg.norm(white, 2)
        linear = np.zeros(2) if is_centred else rng.normal(size=2) / 4
        probes = rng.normal(size=(6, 2))
        arguments = [jnp.asarray(part) for part in (X, linear, probes)]
        transforms = _transforms(m, *arguments)
        ways = (("keys", m), ("queries", m._replace(Q=m.K, K=m.Q)))
        for actual, (way, n) in zip(transforms, ways, strict=True):
            expected = _exact_transform(n, X, linear, square)(probes)
            label = f"T of a quadratic, {name}, to {way}"
            yield gap(label, actual, expected, **QUADRATURE_SLACK)


@eqx.filter_jit
def _transforms(
    m: Member, X: JaxArray, linear: JaxArray, probes: JaxArray
) -> tuple[JaxArray, JaxArray]:
    """The library's transforms $T$ of a quadratic on nodes, at the probes.

    The probes are keys in the first transform, and queries in the second.
    """
    mu = gauss_hermite(lib.gaussian(m), order=ORDER)
    x = mu.tokens.x
    potential = -((x @ X) * x).sum(axis=1) / 2 + x @ linear
    score = SquaredDistance(m.Q, m.K, 2 * jnp.asarray(m.epsilon))
    to_keys = -mu.log_integral(TransposedScore(score), Tokens(probes), potential)
    return to_keys, -mu.log_integral(score, Tokens(probes), potential)


def _exact_transform(m: Member, X: Array, linear: Array, square: float) -> Unary:
    r"""Transform $T$ of a quadratic, with its constant term, by completing the square.

    `X` and `linear` are the coefficients of the quadratic.
    `square` multiplies $Q^\top Q$ and $K^\top K$ in $X'$ and $Y$ of the lemma.
    """
    A, precision = m.K.T @ m.Q, np.linalg.inv(m.covariance)
    X_prime = square * m.Q.T @ m.Q + m.epsilon * (precision + X)
    Y = (A @ np.linalg.solve(X_prime, A.T) - square * m.K.T @ m.K) / m.epsilon
    start = np.linalg.solve(m.covariance, m.mean) + linear
    P = m.epsilon * np.linalg.inv(X_prime)
    cross = A @ P @ start / m.epsilon
    volume = np.linalg.slogdet(np.linalg.solve(P, m.covariance))[1]
    constant = (m.mean @ np.linalg.solve(m.covariance, m.mean) - start @ P @ start) / 2
    return lambda y: (
        -np.sum((y @ Y) * y, axis=1) / 2 - y @ cross + constant + volume / 2
    )


Rule = Callable[[Pair, int], Array]


def _alternating_rule(p: Pair, steps: int) -> Array:
    """Matrix $G_n$ if F and G are updated in turn, each from the other's new value."""
    return recursion(p, steps)[1]


def _wrong_rule(p: Pair, steps: int) -> Array:
    """Matrix $G_n$ if A and its transpose are exchanged in the equation of G."""
    G, q = p.epsilon * np.linalg.inv(p.Omega), p._replace(Sigma=p.Omega)
    for _ in range(steps):
        G = q.half_step(p.half_step(G))
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
        "A and its transpose are exchanged in the line of G",
        {"rule": _wrong_rule},
        ("G⁻¹A…",),
    ),
)
def half_steps(case: Case, *, rule: Rule = _alternating_rule) -> Checks:
    """Compares slopes of E[y | x] after 3, 5, … half-steps with G⁻¹A from (A.9).

    The slopes come from three sources: the library's closed form for finitely many
    half-steps, on the product of two Gaussians; the library's Sinkhorn attention on
    nodes, for one Gaussian; and Sinkhorn iterations between Gauss–Hermite nodes, by
    NumPy in the log domain. With non-zero means, the library's E[y | x] itself is
    compared with the E[y | x] that NumPy computes on nodes.
    """
    yield from _library_checks(case, rule)
    # NumPy computes slopes on nodes for two Gaussians, the library for one Gaussian.
    p, q = members(pairs(case.rng("nodes"), 2, 3, 2, reach=0.25))
    q, m = q.self_pair, q.first
    probes = jnp.asarray(np.vstack([m.mean, m.mean + np.eye(2)]))
    for n in case.pick((1, 2), (1, 2, 3)):
        conditional_means = np.asarray(_point_means(m, probes, 2 * n + 1))
        expected_matrix = lambda r, n=n: np.linalg.solve(rule(r, n), r.A)
        numpy_matrix = node_plan(p, n).regression_matrix
        library_matrix = (conditional_means[1:] - conditional_means[:1]).T
        label = f"G⁻¹A, nodes, {2 * n + 1} half-steps"
        yield gap(label, numpy_matrix, expected_matrix(p), **QUADRATURE_SLACK)
        label = f"G⁻¹A, library on nodes, {2 * n + 1} half-steps"
        yield gap(label, library_matrix, expected_matrix(q), **QUADRATURE_SLACK)
    yield from _means(case)


@half_steps.register_misprint(
    "C25",
    claim=r"read as $F_{n+1} = \epsilon\Sigma^{-1} + A^\top G_n^{-1}A$ and $G_{n+1} "
    r"= \epsilon\Omega^{-1} + AF_n^{-1}A^\top$, each from the old of the other",
    correction=r"the line of $F_{n+1}$ has $G_{n+1}^{-1}$, as (A.7) does",
    counterexample=r"generic Gaussians in the plane, three and five half-steps; the "
    r"printed rule from $f = g = 0$, so $F_0 = \epsilon\Sigma^{-1}$",
)
def _(case: Case) -> Counterexample:
    """Compares the library's slopes after half-steps with both rules."""
    return Counterexample(
        _library_checks(case, _simultaneous_rule),
        _library_checks(case, _alternating_rule),
    )


def _simultaneous_rule(p: Pair, steps: int) -> Array:
    """Matrix $G_n$ if F and G are both updated from their old values."""
    F, G = (p.epsilon * np.linalg.inv(S) for S in (p.Sigma, p.Omega))
    for _ in range(steps):
        F, G = p.half_step(G), p.mirror.half_step(F)
    return G


@eqx.filter_jit
def _point_means(m: Member, probes: JaxArray, iterations: int) -> JaxArray:
    mu = gauss_hermite(lib.gaussian(m), order=16)
    attention = lib.attention("sinkhorn", m, iterations=iterations)
    return attention.field(0.0, mu)(Tokens(probes)) * m.epsilon


def _library_checks(case: Case, rule: Rule) -> Checks:
    """Compares the library's slopes after half-steps with the slopes of a rule."""
    stack = pairs(case.rng("pairs"), 2, 3, case.pick(4, 20))
    for n in case.pick((1, 2), (1, 2, 3)):
        actual = regression_matrices(stack, iterations=2 * n + 1)
        expected = [np.linalg.solve(rule(p, n), p.A) for p in members(stack)]
        label = f"G⁻¹A, library, {2 * n + 1} half-steps"
        yield gap(label, actual, np.array(expected), **EXACT)


def _means(case: Case) -> Checks:
    """Compares the library's E[y | x] after half-steps with NumPy on nodes.

    The means of the Gaussians are not zero.
    """
    q = next(members(pairs(case.rng("means"), 2, 3, 1, reach=0.25))).self_pair
    stack = Member(*columns([q.first]))
    for n in case.pick((1,), (1, 2)):
        nodes = node_plan(q, n)
        w = nodes.plan.sum(axis=1)
        indices = np.argsort(w)[-6:]
        brute = nodes.plan[indices] @ nodes.y / w[indices, None]
        x = nodes.x[None, indices]
        values = lib.rates("sinkhorn", stack, x, iterations=2 * n + 1)
        label = f"E[y | x], library, {2 * n + 1} half-steps"
        yield gap(label, values.velocity[0] * q.epsilon, brute, **QUADRATURE_SLACK)
