"""The fixed-point map behind existence and uniqueness."""

from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded, gap, order
from meanfield.theorems.reference.measures import wasserstein

from . import _frozen as frozen

N = 4
TOGETHER = np.zeros(N)
HORIZONS = (0.2, 0.1, 0.05, 0.025)
LAST = 0.3


@statement(
    "castin2025:lemma-B.8",
    source="Lemmas B.8, B.9 and B.12, §B",
    claim=r"If $\mathrm{Supp}\,\mu(t) \subset B_{R(t)}$ for all $t$, with $R(t) = "
    r"R_0e^{\|V\|t}$, then $F(\mu)$, which carries $\mu_0$ by the fields of $\mu(t)$, "
    "has the same property.",
    hypotheses=r"$\mathrm{Supp}\,\mu_0 \subset B_{R_0}$; masked attention likewise",
    aliases=("castin2025:lemma-B.9", "castin2025:lemma-B.12"),
    control=(
        "the curve leaves the balls: twice as far out",
        {"radius": 2.0},
        ("largest…",),
    ),
)
def contained(case: Case, *, radius: float = 1.0) -> Checks:
    """Tokens carried by the library's fields of prescribed curves, masked and not.

    Atoms turn on spheres of radius R(t): tokens against NumPy's DOP853, against R(t),
    and atoms and tokens on one line with V = 0.7 I, which reach it.
    """
    runs = _spheres(case, radius=radius)
    paths = frozen.carried(runs)
    # The largest |x|/R(t) over later frames, run by run.
    growth = np.array([np.linalg.norm(run.V, 2) for run in runs])
    R = np.exp(growth[:, None] * frozen.FRAMES[None, :])
    shares = (np.linalg.norm(paths, axis=-1).max(axis=-1) / R)[:, 1:].max(axis=1)
    expected = [frozen.reference(run) for run in runs[:2]]
    yield bounded("largest |x|/R(t)", shares.max(), "<=", 1.0, **frozen.STEPS)
    yield bounded("|x|/R(t) on a line", shares[-1], "=", 1.0, **frozen.STEPS)
    yield gap("tokens at t = 1", paths[:2, -1], expected, **frozen.STEPS)


def _parameters(rng: Rng, scale: float) -> tuple[Array, Array, Array]:
    Q, K, V = rng.normal(size=(3, 2, 2)) / 2
    return scale * Q, scale * K, V


def _curve(rng: Rng, radius: Array, growth: float) -> frozen.Curve:
    phase = rng.uniform(0, 2 * np.pi, size=N)
    return frozen.Curve(radius, np.array(growth), phase, rng.uniform(-3, 3, size=N))


def _start(rng: Rng) -> tuple[Array, Array, Array]:
    """Tokens of which the furthest is at distance one, weights, distinct positions."""
    x, w = rng.normal(size=(N, 2)), rng.uniform(0.2, 1.8, size=N)
    x /= np.linalg.norm(x, axis=1).max()
    return x, w / w.sum(), np.sort(rng.uniform(size=N))


def _spheres(case: Case, *, radius: float) -> list[frozen.Run]:
    """Curves on growing spheres, masked and not; the last carries along a line."""
    rng = case.rng("spheres")
    runs = []
    for _ in range(2):
        parameters = _parameters(rng, 1.0)
        growth = float(np.linalg.norm(parameters[2], 2))
        curve = _curve(rng, np.full(N, radius), growth)
        x, w, position = _start(rng)
        runs += [frozen.Run(*parameters, curve, x, w, s) for s in (TOGETHER, position)]
    Q, K, _ = _parameters(rng, 1.0)
    x, w, position = _start(rng)
    line = frozen.Curve(np.full(N, radius), np.array(0.7), np.ones(N), TOGETHER)
    x = np.broadcast_to([np.cos(1), np.sin(1)], x.shape)
    return [*runs, frozen.Run(Q, K, 0.7 * np.eye(2), line, x, w, position)]


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
        "without the 1 in 1 + 2|A|R²: barycentres of curves stay put",
        {"one": 0.0},
        (
            "D_1,T(F(μ), F(ν)) / D_1,T(μ, ν), Diracs, …",
            "D_2,T(F(μ), F(ν)) / D_2,T(μ, ν), Diracs, …",
        ),
    ),
)
def contraction(case: Case, *, one: float = 1.0) -> Checks:
    """Tokens carried by the fields of two constant curves of four atoms.

    The largest distance up to T, by linear programmes, against f; its order in T; and
    Diracs with A = 0 and V = 0.7 I, which reach the bound.
    """
    pairs, paths = _carried(case)
    labels, names = ("free", "masked", "", "Diracs"), ("T", "distance")
    for i, p in ((0, 1.0), (0, 2.0), (1, 2.0), (3, 1.0), (3, 2.0)):
        pair = pairs[i]
        y, z = (run.curve.at(0.0) for run in pair)
        start = _distance(pair[0], y, z, p)
        moved = _moved(pair, paths[i], p)
        why = f"{frozen.WHY}, twice, over the distance of the curves"
        slack = Slack(tolerance=4e-7 / start, why=why)
        for T in HORIZONS[::3]:
            label = f"D_{p:g},T(F(μ), F(ν)) / D_{p:g},T(μ, ν), {labels[i]}, T = {T}"
            ratio = moved[frozen.FRAMES <= T].max() / start
            yield bounded(label, ratio, "<=", _factor(pair[0], T, one=one), **slack)
    for i in (0, 1):
        moved = _moved(pairs[i], paths[i], 2.0)
        largest = [moved[frozen.FRAMES <= T].max() for T in HORIZONS]
        label = f"order of D_2,T(F(μ), F(ν)) in T, {labels[i]}"
        yield order(label, HORIZONS, largest, 1.0, names=names)


def _carried(case: Case) -> tuple[list[list[frozen.Run]], Array]:
    """The pairs, and the tokens that they carry."""
    # Curves in pairs: constant, then growing; and Diracs with A = 0, V = 0.7 I.
    rng = case.rng("pairs")
    pairs = []
    for growth, masked in ((0.0, 0.0), (0.0, 1.0), (0.4, 0.0)):
        Q, K, V = _parameters(rng, 0.6)
        V = V * max(1.0, growth / np.linalg.norm(V, 2))  # the growth X allows
        x, w, position = _start(rng)
        turn = np.array(0.0 if growth == 0 else 1.0)
        drawn = [_curve(rng, rng.uniform(0.3, 1, size=N), growth) for _ in range(2)]
        curves = [c._replace(turn=turn * c.turn) for c in drawn]
        pairs.append([frozen.Run(Q, K, V, c, x, w, masked * position) for c in curves])
    x, w, _ = _start(rng)
    zero, still = np.zeros((2, 2)), (np.array(0.0), np.ones(N), TOGETHER)
    diracs = [frozen.Curve(np.full(N, r), *still) for r in (0.9, 0.2)]
    runs = [frozen.Run(zero, zero, 0.7 * np.eye(2), c, x, w, TOGETHER) for c in diracs]
    pairs = [*pairs, runs]
    paths = frozen.carried([run for pair in pairs for run in pair])
    return pairs, paths.reshape(-1, 2, *paths.shape[1:])


def _distance(first: frozen.Run, y: Array, z: Array, p: float) -> float:
    """W_p; for masked runs $d_p$, since every position holds one atom."""
    if np.ptp(first.position) == 0:
        return wasserstein(y, z, p, weights=(first.w, first.w))
    return float(first.w @ np.linalg.norm(y - z, axis=1) ** p) ** (1 / p)


def _rates(run: frozen.Run, T: float, *, one: float) -> tuple[float, float]:
    r"""$C_1$ and $C_2R^2$ at $R(T)$, with `one` for the 1 in $1 + 2\|A\|R^2$."""
    v = float(np.linalg.norm(run.V, 2))
    full, grown = frozen.constants(run, np.exp(v * T))
    return full - (1 - one) * v * np.exp(2 * grown / v), grown


def _factor(run: frozen.Run, T: float, *, one: float) -> float:
    r"""$f = \frac{C_1}{C_2R^2}(e^{C_2R^2T} - 1)$ at $R(T)$, twice that if masked."""
    first, grown = _rates(run, T, one=one)
    hardy = 1 if np.ptp(run.position) == 0 else 2
    return hardy * first * (np.expm1(grown * T) / grown if grown else T)


def _moved(pair: list[frozen.Run], paths: Array, p: float) -> Array:
    """The distance of the carried tokens at each frame."""
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
        "without the 1 in 1 + 2|A|R²: barycentres of curves stay put",
        {"one": 0.0},
        ("sup of |φ_t(μ) - φ_t(ν)|, Diracs",),
    ),
)
def flows_apart(case: Case, *, one: float = 1.0) -> Checks:
    """Tokens carried by two curves of four atoms that turn and move outwards.

    To t = 0.3; W_1 by linear programmes at 8 Gauss–Legendre nodes; and two Diracs with
    A = 0 and V = 0.7 I, which reach the bound.
    """
    pairs, paths = _carried(case)
    end = int(np.flatnonzero(frozen.FRAMES == LAST)[0])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    s, ds = LAST / 2 * (1 + nodes), LAST / 2 * weights
    for i, name in ((2, "growing"), (3, "Diracs")):
        pair = pairs[i]
        first, grown = _rates(pair[0], LAST, one=one)
        curves = zip(*([run.curve.at(t) for t in s] for run in pair), strict=True)
        W = [_distance(pair[0], y, z, 1.0) for y, z in curves]
        bound = first * float(ds @ (np.exp(grown * (LAST - s)) * W))
        apart = np.linalg.norm(paths[i, 0, end] - paths[i, 1, end], axis=1).max()
        label = f"sup of |φ_t(μ) - φ_t(ν)|, {name}"
        yield bounded(label, apart, "<=", bound, **frozen.TWICE)
