"""Gaussians under L2 attention."""

from functools import partial

from meanfield.theorems._arrays import Array, columns, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.theorems.library.measures import massless_tilts
from meanfield.theorems.library.moving_parameters import moving_ensemble, moving_flows
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.energies import distance
from meanfield.theorems.reference.measures import hermite_nodes

NODES = {1: 20, 2: 16, 3: 16}
REACH = 0.125  # this `reach` keeps |YᵀAY| and |YᵀBY| at most 1/4
QUADRATURE = (
    "Gauss–Hermite error of tilts with |YᵀAY|, |YᵀBY| ≤ 1/4 at probes within two "
    "deviations, 1e-13 by self-convergence, and rounding"
)
EXACT = Slack(
    tolerance=1e-12, why="solutions of systems of condition below 1e3 in float64"
)


@statement(
    "castin2025:lemma-4.10",
    source="Lemma 4.10, §4.3",
    claim=r"$\Gamma^{L2}_{N(\alpha,\Sigma)}(x) = VP_\Sigma(\Sigma^{-1}\alpha + "
    r"2K^\top Qx) = V(\alpha + 2P_\Sigma K^\top(Qx - K\alpha))$ with $P_\Sigma = "
    r"(\Sigma^{-1} + 2K^\top K)^{-1}$.",
    hypotheses=r"$\Sigma \succ 0$ for the first form; the second holds for any "
    r"$\Sigma = YY^\top$, with $P_\Sigma = Y(I + 2Y^\top K^\top KY)^{-1}Y^\top$; a "
    r"bandwidth $\epsilon$ divides $K^\top Q$ and $K^\top K$",
    remark=r"C32: the paper omits $\Sigma \succ 0$.",
    control=(
        "the factor 2 is dropped before KᵀK",
        {"curvature": 1.0},
        ("library…", "nodes…"),
    ),
)
def closure(case: Case, *, curvature: float = 2.0) -> Checks:
    """Compares the formula of Lemma 4.10 with the library and with L2 over nodes.

    The form with inverses is used unless the covariance is singular. The nodes are
    Gauss–Hermite nodes. Means are not zero, bandwidths are not one, and k is above or
    below d. A tilt by an indefinite form B can make the mass infinite; in that case the
    library must not return a number.
    """
    shapes = [(1, 1, 1), (2, 3, 2), (3, 2, 3), (3, 2, 2), (5, 3, 5)]
    for d, k, r in shapes:
        rng = case.rng(f"d={d}, k={k}, r={r}")
        stack = lib.ensemble(rng, (d, k, r), case.pick(2, 6), reach=REACH)
        z = rng.uniform(-1, 1, size=(len(stack.V), 4, r))
        probes = stack.mean[:, None, :] + z @ np.swapaxes(stack.factor, 1, 2)
        actual = lib.rates("l2", stack, probes).velocity
        form = _inverse_form if r == d else _inverse_free
        pairs = list(zip(lib.members(stack), probes, strict=True))
        expected = [form(m, x, curvature) for m, x in pairs]
        name = f"d = {d}, k = {k}, rank {r}"
        yield gap(f"library, {name}", actual, expected, **EXACT)
        if d <= 3:
            brute = [_node_velocity(m, x) for m, x in pairs]
            quadrature = Slack(tolerance=1e-11, why=QUADRATURE)
            yield gap(f"nodes, {name}", brute, expected, **quadrature)
    yield massless_tilts(case)


def _tilt(m: Member, covariance: Array, curvature: float) -> Array:
    r"""$P_\Sigma = (\Sigma^{-1} + 2K^\top K/\epsilon)^{-1}$; `curvature` replaces 2."""
    gram = curvature * m.K.T @ m.K / m.epsilon
    return np.linalg.solve(np.eye(len(gram)) + covariance @ gram, covariance)


def _inverse_free(m: Member, probes: Array, curvature: float) -> Array:
    r"""Velocity $V(\alpha + P(2K^\top Qx - 2K^\top K\alpha)/\epsilon)$ for any Σ."""
    P = _tilt(m, m.covariance, curvature) / m.epsilon
    shifts = 2 * probes @ m.A.T - curvature * (m.K.T @ m.K @ m.mean)[None, :]
    return (m.mean[None, :] + shifts @ P.T) @ m.V.T


def _inverse_form(m: Member, probes: Array, curvature: float) -> Array:
    r"""Velocity $VP(\Sigma^{-1}\alpha + 2K^\top Qx/\epsilon)$, the printed form."""
    P = np.linalg.inv(np.linalg.inv(m.covariance) + curvature * m.K.T @ m.K / m.epsilon)
    start = np.linalg.solve(m.covariance, m.mean)
    return (start[None, :] + 2 * probes @ m.A.T / m.epsilon) @ P.T @ m.V.T


def _node_velocity(m: Member, probes: Array) -> Array:
    x, w = hermite_nodes(m.mean, m.factor, NODES[m.factor.shape[1]])
    return ref.normalised_velocity(distance(m.Q, m.K, m.epsilon)(probes, x), w, m.V, x)


@statement(
    "castin2025:prop-4.11",
    source="Proposition 4.11, eq. (4.3), §4.3",
    claim=r"$\Sigma' = L\Sigma + \Sigma L^\top$ with $L = 2VP_\Sigma A$, and "
    r"$\alpha' = VP_\Sigma(\Sigma^{-1} + 2A)\alpha$, for parameters that vary in time "
    "too; Gaussians stay Gaussian.",
    hypotheses=r"$\Sigma \succ 0$ (C32); $A = K^\top Q$",
    aliases=("castin2025:eq-4.3",),
    control=("the factor 2 is dropped before KᵀK", {"curvature": 1.0}),
)
def moments(case: Case, *, curvature: float = 2.0) -> Checks:
    """Compares rates of Proposition 4.11 with the library's and with particles.

    The particles are Gauss–Hermite nodes, whose rates NumPy computes. The library's
    flows are compared with DOP853, which solves the equations of the moments. In d = 2
    the parameters are constant; in d = 3 they are linear in time in each of two layers.
    """
    small = lib.ensemble(case.rng("rates"), (2, 3, 2), case.pick(8, 50), reach=REACH)
    states = [(m, (m.mean, m.covariance)) for m in lib.members(small)]
    mean, covariance = columns(
        _moment_rates(m, state, curvature) for m, state in states
    )
    node_means, node_covariances = columns(
        _node_rates(m) for m, _ in states[: case.pick(3, 12)]
    )
    library = lib.rates("l2", small)
    ts = np.linspace(0, 0.5, 6)
    stack = lib.ensemble(case.rng("flow"), (2, 2, 2), 4)
    run = lib.paths("l2", stack, ts)
    rate = partial(_moment_rates, curvature=curvature)
    alphas, Sigmas = lib.solve_moments(rate, stack, ts)
    loose = Slack(tolerance=run.tolerance(10), why="steps of 4e-10, amplified tenfold")
    why = QUADRATURE + ", over nodes eight deviations out"
    nodes, n_members = Slack(tolerance=1e-10, why=why), len(node_means)
    yield gap("Σ', library", library.covariance, covariance, **EXACT)
    yield gap("(YYᵀ)', library", library.factor_covariance, covariance, **EXACT)
    yield gap("α', library", library.mean, mean, **EXACT)
    yield gap("Σ', nodes", node_covariances, covariance[:n_members], **nodes)
    yield gap("α', nodes", node_means, mean[:n_members], **nodes)
    yield gap("Σ(t), library", run.covariance, Sigmas, **loose)
    yield gap("α(t), library", run.mean, alphas, **loose)
    # Q and K have two rows, so that A(t) is singular.
    moving = moving_ensemble(case.rng("moving"), (3, 2, 3), 4)
    yield from moving_flows("l2", moving, rate)


@moments.register_misprint(
    "C10",
    claim=r"$\Sigma'$ is not the sum of a term and its transpose; read as $\Sigma' = "
    r"2V(I + 2\Sigma K^\top K)^{-1}\Sigma A\Sigma + "
    r"2\Sigma A^\top \Sigma(I + 2\Sigma K^\top K)^{-1}V^\top$",
    correction=r"the second term is $2\Sigma A^\top(I + 2\Sigma K^\top K)^{-1}\Sigma "
    r"V^\top$, the transpose of the first",
    counterexample="random Q, K, V and Σ in the plane: the printed Σ' is not symmetric",
)
def _(case: Case) -> Counterexample:
    stack = lib.ensemble(case.rng("printed"), (2, 3, 2), case.pick(8, 50))
    library = lib.rates("l2", stack).covariance
    misprint, correction = [], []
    for m in lib.members(stack):
        S, A = m.covariance, m.A / m.epsilon
        R = np.linalg.inv(np.eye(2) + 2 * S @ m.K.T @ m.K / m.epsilon)
        first = 2 * m.V @ R @ S @ A @ S
        misprint.append(first + 2 * S @ A.T @ S @ R @ m.V.T)
        correction.append(first + 2 * S @ A.T @ R @ S @ m.V.T)
    rates = np.array(misprint)
    skew = np.max(np.abs(rates - np.swapaxes(rates, 1, 2)))
    return Counterexample(
        (
            gap("Σ' as printed", rates, library, **EXACT),
            compare("asymmetry of the print", skew, "<=", 0.0, **EXACT),
        ),
        (gap("Σ' corrected", correction, library, **EXACT),),
    )


def _moment_rates(m: Member, state: lib.Moments, curvature: float) -> lib.Moments:
    r"""Rates $VP(\Sigma^{-1} + 2A)\alpha$ and $L\Sigma + \Sigma L^\top$, $L = 2VPA$."""
    mean, covariance = state
    P = _tilt(m, covariance, curvature)
    L = 2 * m.V @ P @ m.A / m.epsilon
    half = L @ covariance
    start = np.linalg.solve(covariance, mean)
    return m.V @ P @ (start + 2 * m.A @ mean / m.epsilon), half + half.T


def _node_rates(m: Member) -> lib.Moments:
    """Rates of mean and covariance of particles at the Gauss–Hermite nodes."""
    x, w = hermite_nodes(m.mean, m.factor, NODES[2])
    v = ref.normalised_velocity(distance(m.Q, m.K, m.epsilon)(x, x), w, m.V, x)
    half = (v * w[:, None]).T @ (x - m.mean)
    return w @ v, half + half.T
