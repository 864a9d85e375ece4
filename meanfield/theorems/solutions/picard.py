"""The fixed-point map behind existence and uniqueness."""

from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap, order
from meanfield.theorems.library.particles import random_parameters
from meanfield.theorems.reference.measures import wasserstein

from . import _curve_flows as frozen

N = 4
ZEROS = np.zeros(N)
ONES = np.ones(3)  # one for each node of the parameters
HORIZONS = (0.2, 0.025)
SHORT_HORIZONS = frozen.SHORT_TIMES  # the parameters change by less than 3 % in them
LAST = 0.3


@statement(
    "castin2025:lemma-B.8",
    source="Lemmas B.8, B.9 and B.12, §B",
    claim=r"If $\mathrm{Supp}\,\mu(t) \subset B_{R(t)}$ for all $t$, with $R(t) = "
    r"R_0\exp\int_0^t\|V\|$, then $F(\mu)$, which carries $\mu_0$ by the fields of "
    r"$\mu(t)$, has the same property.",
    hypotheses=r"$\mathrm{Supp}\,\mu_0 \subset B_{R_0}$; masked attention likewise; "
    "$Q$, $K$, $V$ continuous in time, here piecewise linear",
    aliases=("castin2025:lemma-B.9", "castin2025:lemma-B.12"),
    control=(
        "the atoms of the curve are twice as far out, outside of the balls",
        {"radius": 2.0},
        ("largest…",),
    ),
)
def containment(case: Case, *, radius: float = 1.0) -> Checks:
    """Compares |x| with R(t), for tokens x in the fields of prescribed measures.

    Parameters move, and the atoms of these measures rotate on growing spheres inside of
    B_R(t). Attention is masked in some runs and not in others. Tokens at t = 1 are
    compared with SciPy's DOP853. If atoms and tokens lie on one line and V is a
    multiple of I that changes with time, the bound must be reached.
    """
    runs = _spheres(case, radius=radius)
    paths = frozen.carry_runs(runs)
    # For each run, find the largest |x|/R(t) over the frames after the first.
    R = np.stack([frozen.radii(run) for run in runs])
    shares = (np.linalg.norm(paths, axis=-1).max(axis=-1) / R)[:, 1:].max(axis=1)
    expected = [frozen.reference(run) for run in runs[:2]]
    yield compare("largest |x|/R(t)", shares.max(), "<=", 1.0, **frozen.STEPS)
    yield compare("|x|/R(t) on a line", shares[-1], "=", 1.0, **frozen.STEPS)
    yield gap("tokens at t = 1", paths[:2, -1], expected, **frozen.STEPS)


def _parameters(rng: Rng, scale: float) -> frozen.Parameters:
    """Random matrices that rotate with time, one for each node."""
    Q, K, V = (part[:, 0] for part in random_parameters(rng, heads=1))
    return scale * Q, scale * K, V


def _sphere_growth(parameters: frozen.Parameters) -> float:
    r"""A lower bound of $\|V(t)\|$; spheres that grow at this rate stay in $B_{R(t)}$.

    One per cent covers the times between those of the grid.
    """
    return 0.99 * float(np.min(frozen.norms(parameters, np.linspace(0, 1, 201))[0]))


def _curve(rng: Rng, radius: Array, growth: float) -> frozen.Curve:
    phase, turn = rng.uniform(0, 2 * np.pi, size=N), rng.uniform(-3, 3, size=N)
    return frozen.Curve(radius, growth * ONES, phase, turn)


def _start(rng: Rng) -> tuple[Array, Array, Array]:
    """Random tokens in the unit ball, their weights and distinct positions.

    One token is on the boundary of the ball.
    """
    x, w = rng.normal(size=(N, 2)), rng.uniform(0.2, 1.8, size=N)
    x /= np.linalg.norm(x, axis=1).max()
    return x, w / w.sum(), np.sort(rng.uniform(size=N))


def _spheres(case: Case, *, radius: float) -> list[frozen.Run]:
    """Runs with curves on growing spheres, with and without a mask.

    The last run is on a line.
    """
    rng = case.rng("spheres")
    runs = []
    for _ in range(2):
        parameters = _parameters(rng, 1.0)
        growth = _sphere_growth(parameters)
        curve = _curve(rng, np.full(N, radius), growth)
        x, w, position = _start(rng)
        runs += [frozen.Run(*parameters, curve, x, w, s) for s in (ZEROS, position)]
    Q, K, _ = _parameters(rng, 1.0)
    x, w, position = _start(rng)
    growth = np.array([0.4, 0.9, 0.6])
    V = growth[:, None, None] * np.eye(2)
    line = frozen.Curve(np.full(N, radius), growth, np.ones(N), ZEROS)
    x = np.broadcast_to([np.cos(1), np.sin(1)], x.shape)
    return [*runs, frozen.Run(Q, K, V, line, x, w, position)]


@statement(
    "castin2025:lemma-B.10",
    source="Lemmas B.10 and B.13, §B",
    claim=r"$D_{p,T}(F(\mu),F(\nu)) \le f(T,R_0) D_{p,T}(\mu,\nu)$ with $f = "
    r"\frac{C_1}{C_2R^2}(e^{C_2R^2T} - 1)$, which tends to 0 with $T$; masked, for $p "
    "= 2$, with $2C_1$ for $C_1$.",
    hypotheses=r"$F$ of Lemma B.8; $D_{p,T}$ is the largest $W_p(\mu(t),\nu(t))$ for "
    r"$t \le T$, masked $d_p$ for $W_p$; $\mu, \nu$ in $B_{R(t)}$, softmax, $C_1$ and "
    "$C_2$ of Theorem 3.1 at $R = R(T)$",
    aliases=("castin2025:lemma-B.13",),
    remark="C5: for masked attention the pointwise estimate of the proof fails; "
    "Hardy's inequality replaces it, with its factor p/(p - 1) = 2.",
    control=(
        "the 1 in 1 + 2|A|R², the effect of moving barycentres, is dropped",
        {"unit_term": 0.0},
        (
            "D_1,T(F(μ), F(ν)) / D_1,T(μ, ν), Diracs, …",
            "D_2,T(F(μ), F(ν)) / D_2,T(μ, ν), Diracs, …",
        ),
    ),
)
def contraction(case: Case, *, unit_term: float = 1.0) -> Checks:
    """Compares distances of tokens carried by two curves with the factor f.

    Parameters move. The curves are constant and have four atoms. Linear programmes give
    exact distances. The largest distance up to T is compared with f, and its order in T
    is measured. Diracs with A = 0 and V = 0.7 I reach the bound.
    """
    pairs, paths = _carry_pairs(case)
    labels, names = ("free", "masked", "", "Diracs"), ("T", "distance")
    for i, p in ((0, 1.0), (0, 2.0), (1, 2.0), (3, 1.0), (3, 2.0)):
        pair = pairs[i]
        y, z = (run.curve.atoms(0.0) for run in pair)
        start = _distance(pair[0], y, z, p)
        distances = _frame_distances(pair, paths[i], p)
        why = f"{frozen.WHY}, twice, over the distance of the curves"
        slack = Slack(tolerance=4e-7 / start, why=why)
        for T in HORIZONS:
            label = f"D_{p:g},T(F(μ), F(ν)) / D_{p:g},T(μ, ν), {labels[i]}, T = {T}"
            ratio = distances[frozen.FRAMES <= T].max() / start
            factor = _factor(pair[0], T, unit_term=unit_term)
            yield compare(label, ratio, "<=", factor, **slack)
    for i in (0, 1):
        distances = _frame_distances(pairs[i], paths[i], 2.0)
        largest = [distances[frozen.FRAMES <= T].max() for T in SHORT_HORIZONS]
        label = f"order of D_2,T(F(μ), F(ν)) in T, {labels[i]}"
        yield order(label, SHORT_HORIZONS, largest, 1.0, names=names)


def _carry_pairs(case: Case) -> tuple[list[list[frozen.Run]], Array]:
    """Pairs of runs, and the paths of their tokens in the library's flows."""
    # In two pairs the curves are constant, in one they grow, and the last is a pair of
    # Diracs with A = 0 and V = 0.7 I.
    rng = case.rng("pairs")
    pairs = []
    for growth, mask_factor in ((0.0, 0.0), (0.0, 1.0), (0.4, 0.0)):
        Q, K, V = _parameters(rng, 0.6)
        x, w, position = _start(rng)
        turn = np.array(0.0 if growth == 0 else 1.0)
        growth = min(growth, _sphere_growth((Q, K, V)))
        draws = [_curve(rng, rng.uniform(0.3, 1, size=N), growth) for _ in range(2)]
        curves = [c._replace(turn=turn * c.turn) for c in draws]
        pairs.append(
            [frozen.Run(Q, K, V, c, x, w, mask_factor * position) for c in curves]
        )
    x, w, _ = _start(rng)
    zero, static_motion = np.zeros((3, 2, 2)), (0 * ONES, np.ones(N), ZEROS)
    diracs = [frozen.Curve(np.full(N, r), *static_motion) for r in (0.9, 0.2)]
    runs = [
        frozen.Run(zero, zero, zero + 0.7 * np.eye(2), c, x, w, ZEROS) for c in diracs
    ]
    pairs = [*pairs, runs]
    paths = frozen.carry_runs([run for pair in pairs for run in pair])
    return pairs, paths.reshape(-1, 2, *paths.shape[1:])


def _distance(first: frozen.Run, y: Array, z: Array, p: float) -> float:
    """Distance W_p, or $d_p$ for masked runs, where each position has one atom."""
    if np.ptp(first.position) == 0:
        return wasserstein(y, z, p, weights=(first.w, first.w))
    return float(first.w @ np.linalg.norm(y - z, axis=1) ** p) ** (1 / p)


def _rates(run: frozen.Run, T: float, *, unit_term: float) -> tuple[float, float]:
    r"""Constants $C_1$ and $C_2R^2$ at $R(T)$.

    `unit_term` replaces the 1 in $1 + 2\|A\|R^2$.
    """
    v, full, second = frozen.constants(run, T)
    return full - (1 - unit_term) * v * np.exp(2 * second / v), second


def _factor(run: frozen.Run, T: float, *, unit_term: float) -> float:
    r"""Factor $f = \frac{C_1}{C_2R^2}(e^{C_2R^2T} - 1)$ at $R(T)$; double if masked."""
    first, second = _rates(run, T, unit_term=unit_term)
    hardy = 1 if np.ptp(run.position) == 0 else 2
    return hardy * first * (np.expm1(second * T) / second if second else T)


def _frame_distances(pair: list[frozen.Run], paths: Array, p: float) -> Array:
    """Distance of the tokens that two runs carry, at each frame."""
    return np.array([_distance(pair[0], y, z, p) for y, z in zip(*paths, strict=True)])


@statement(
    "castin2025:eq-B.1",
    source="eq. (B.1), §B",
    claim=r"$\|\phi_t(\mu)-\phi_t(\nu)\|_\infty \le C_1\int_0^t e^{C_2R^2(t-s)} "
    r"W_p(\mu(s),\nu(s))\,ds$.",
    hypotheses=r"$\phi_t(\mu)$ carries points by the fields of $\mu(s)$, $s \le t$; "
    r"the norm is over $B_{R_0}$; $\mu, \nu$ in $B_{R(t)}$, softmax, $p \geq 1$; $C_1$ "
    "and $C_2$ of Theorem 3.1, with $R$ at the last time",
    control=(
        "the 1 in 1 + 2|A|R², the effect of moving barycentres, is dropped",
        {"unit_term": 0.0},
        ("sup of |φ_t(μ) - φ_t(ν)|, Diracs",),
    ),
)
def flow_distance(case: Case, *, unit_term: float = 1.0) -> Checks:
    """Compares the distance at t = 0.3 of tokens carried by two curves with (B.1).

    The curves have four atoms that turn and move outwards. Linear programmes give W_1
    between the curves at 8 Gauss–Legendre nodes in time. Two constant Diracs with A = 0
    and V = 0.7 I reach the bound.
    """
    pairs, paths = _carry_pairs(case)
    end = int(np.flatnonzero(frozen.FRAMES == LAST)[0])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    s, ds = LAST / 2 * (1 + nodes), LAST / 2 * weights
    for i, name in ((2, "growing"), (3, "Diracs")):
        pair = pairs[i]
        first, second = _rates(pair[0], LAST, unit_term=unit_term)
        curves = zip(*([run.curve.atoms(t) for t in s] for run in pair), strict=True)
        W = [_distance(pair[0], y, z, 1.0) for y, z in curves]
        bound = first * float(ds @ (np.exp(second * (LAST - s)) * W))
        distance = np.linalg.norm(paths[i, 0, end] - paths[i, 1, end], axis=1).max()
        label = f"sup of |φ_t(μ) - φ_t(ν)|, {name}"
        yield compare(label, distance, "<=", bound, **frozen.TWICE)
