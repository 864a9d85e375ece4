"""Masked attention: existence, and distances that keep positions."""

from collections.abc import Callable

from scipy.linalg import expm

from meanfield.theorems._arrays import Array, Rng, columns, np
from meanfield.theorems._ascents import ascend
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap, order
from meanfield.theorems.estimates.attacks import BANDWIDTH
from meanfield.theorems.library import bounds, particles

from . import _masked as masked
from . import _masked_members as members

COUNTS = (10, 30, 90)
POWERS = (1.5, 2.0, 3.0)
WHY = (
    "local errors of 4e-10 in at most 40 steps, amplified by 4 at most, from a root "
    "mean square over 180 coordinates to their maximum: 9e-7"
)


STEPS = Slack(tolerance=1e-6, why=WHY)


@statement(
    "castin2025:rem-3.3",
    source="Remark 3.3, §3.2",
    claim="For $p > 1$ distances $d_p$ between masked solutions grow at a bounded "
    r"rate, with Hardy's $\frac{p}{p-1}$: $d_p(t) \le e^{\frac{p}{p-1}\|V\|t} d_p(0)$ "
    "for $A = 0$.",
    hypotheses=r"$d_p(\mu,\nu)^p = \int W_p(\mu^\tau,\nu^\tau)^p\,d\theta(\tau)$, the "
    r"same $\theta$, $p > 1$; measured with one atom for each position, in the plane",
    control=(
        "the constant without Hardy's factor, exp(|V|t) for every p",
        {"factor": lambda _: 1.0},
        ("largest d_p(1)/d_p(0), …",),
    ),
)
def powers(
    case: Case, *, factor: Callable[[float], float] = lambda p: p / (p - 1)
) -> Checks:
    """Compares the growth of d_p between masked flows with Hardy's constant.

    The library's flows in the plane have 10, 30 and 90 tokens, A = 0 and |V| = 1. The
    flows of 90 tokens are compared with the exponential of the averages times V. The
    ratio d_p(1)/d_p(0) is measured for p = 1.5, 2, 3. Either one token is displaced,
    along an eigenvector of V, or all are, along the singular vector for which d_2 grows
    most; V is then not symmetric.
    """
    sequences = _means(case)
    paths = masked.carry(sequences)
    ends, reference = columns(
        (paths[i][-1], _exponential(sequences[i]) @ sequences[i].x.ravel())
        for i in (5, 7)
    )
    yield gap("90 tokens at t = 1", ends.reshape(2, -1), reference, **STEPS)
    why = f"{WHY}, over a distance of 90 to the power of -2/3 at least"
    for p in POWERS:
        label = f"largest d_p(1)/d_p(0), p = {p:g}, over exp of Hardy's constant"
        share = np.max(_ratios(sequences, paths, p)) / np.exp(factor(p))
        yield compare(label, share, "<=", 1.0, tolerance=2e-5, why=why)


@powers.register_misprint(
    "C5",
    claim=r"The theory adapts to $d_p$ for all $p \ge 1$, with the same constants.",
    correction=r"$p > 1$, and the constant carries $\frac{p}{p-1}$.",
    counterexample="n tokens of equal weight, A = 0, |V| = 1, the first one moved "
    "along an eigenvector of V to the eigenvalue 1: by t = 1 token i moves by 1/i at "
    "least, and d_1 grows by more than log n: beyond e², Hardy's factor for p = 2, and "
    "beyond every constant",
)
def _(case: Case) -> Counterexample:
    sequences = _means(case)
    paths = masked.carry(sequences)
    first, second = (_ratios(sequences, paths, p)[:3] for p in (1.0, 2.0))
    harmonic = [1 + np.sum(1 / np.arange(1, n + 1)) for n in COUNTS]
    least = np.min(first / harmonic)
    return Counterexample(
        misprint=(compare("d_1(1)/d_1(0), n = 90", first[-1], "<=", np.exp(2)),),
        correction=(
            compare("d_2(1)/d_2(0), n = 90", second[-1], "<=", np.exp(2)),
            compare("d_1(1)/d_1(0) over 1 + 1 + 1/2 + … + 1/n", least, ">=", 1.0),
        ),
    )


def _exponential(sequence: masked.Sequence) -> Array:
    """Matrix that maps all coordinates at time 0 to those at t = 1, for A = 0.

    Each token moves by V times the mean of the tokens up to it.
    """
    n = len(sequence.x)
    averages = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    return np.asarray(expm(np.kron(averages, sequence.V)))


def _means(case: Case) -> list[masked.Sequence]:
    """Pairs of sequences with A = 0, norm 1 of V, and equal weights.

    In all pairs but the last, V is symmetric, with eigenvalues 1 and -½, and the first
    token of the second sequence is moved by 1, along the eigenvector to 1. In the last
    pair V is not normal, and all tokens are moved, along the direction in which $d_2$
    grows most.
    """
    pairs = []
    for n in COUNTS:
        rng = case.rng(f"n={n}")
        turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        V = turn @ np.diag([1.0, -0.5]) @ turn.T
        pairs.append((_uniform(rng, n, V), np.outer(np.eye(n)[0], turn[:, 0])))
    rng = case.rng("not normal")
    V = rng.normal(size=(2, 2))
    last = _uniform(rng, COUNTS[-1], V / np.linalg.norm(V, 2))
    worst = np.linalg.svd(_exponential(last))[2][0].reshape(-1, 2)
    pairs.append((last, worst))
    return [y for x, move in pairs for y in (x, x._replace(x=x.x + move))]


def _uniform(rng: Rng, n: int, V: Array) -> masked.Sequence:
    """Tokens of equal weight, uniform in a square, with A = 0."""
    zero, x = np.zeros((2, 2)), rng.uniform(-1, 1, size=(n, 2))
    return masked.Sequence(zero, zero, V, x, np.full(n, 1 / n), np.arange(1, n + 1) / n)


def _ratios(sequences: list[masked.Sequence], paths: list[Array], p: float) -> Array:
    """Growth factors $d_p(1)/d_p(0)$ of all pairs."""
    ratios = []
    pairs = zip(sequences[::2], paths[::2], paths[1::2], strict=True)
    for sequence, x, y in pairs:
        first, last = (masked.distance(x[t], y[t], sequence.w, p) for t in (0, -1))
        ratios.append(last / first)
    return np.array(ratios)


@statement(
    "castin2025:thm-3.4",
    source="Theorem 3.4, §3.2",
    claim=r"Masked solutions stay in $B_{R(t)}$, $R(t) = R_0\exp\int_0^t\|V\|$, and "
    r"$d(\mu(t),\nu(t)) \le e^{(2C_1 + C_2R(t)^2)t} d(\mu_0,\nu_0)$; at a position, "
    r"$\|\Gamma_\mu(s,x) - \Gamma_\nu(s,x)\| \le c(x,R)\,\theta([0,s])^{-\frac12} "
    r"d(\mu,\nu)$.",
    hypotheses=(
        r"$d$ of Definition 3.2, the same $\theta$, supports in $B_{R_0}$; softmax: $c "
        r"= \|V\|(1 + 2\|A\|R\|x\|)e^{2\|A\|R\|x\|}$, $C_1$ is $c$ at $\|x\| = R = "
        r"R(t)$, $C_2 = \|V\|\|A\|$; for the other variants $C_1$ and $C_2$ are those "
        r"of Theorem 3.1; norms are largest values over time, sums over heads"
        + BANDWIDTH
    ),
    remark="The factor 2 comes from Hardy's inequality for averages over earlier "
    "positions in $L^2$.",
)
def existence(case: Case) -> Checks:
    """Compares masked flows in the plane with the bounds of Theorem 3.4.

    Softmax attention with constant parameters moves 10, 30 and 90 tokens, whose weights
    are unequal. Softmax, L2, Sinkhorn, sigmoid and two-head attention with moving
    parameters move six tokens, two of them at one position. The first token is
    displaced. The library's flows are compared with SciPy's DOP853, with R(t) and with
    the growth bound of d. Gradient ascent over parameters, atoms, weights and
    displacements tests the bound on the change of softmax at each position.
    """
    sequences = _sequences(case)
    paths = masked.carry(sequences)
    label = "|dΓ(s, x)| θ([0, s])^½ / (c d)"
    pairs = [(paths[i][-1], masked.reference(sequences[i])) for i in (1, 6)]
    ends, reference = columns(pairs)
    yield gap("10 tokens at t = 1", ends, reference, **STEPS)
    shares = []
    for sequence, path in zip(sequences, paths, strict=True):
        lengths = np.linalg.norm(path, axis=2)
        R = lengths[0].max() * np.exp(_norm(sequence.V) * masked.FRAMES[1:])
        shares.append(lengths[1:].max(axis=1) / R)
    slack = Slack(tolerance=1e-6, why=f"{WHY}; tokens at one point reach it")
    yield compare("largest |x|/R(t), all runs", np.max(shares), "<=", 1.0, **slack)
    yield from _growth(sequences, paths, hardy=2.0)
    yield from _moving_parameters(case)
    yield ascend(case, label, masked.log_pointwise, masked.start, steps=80)


def _sequences(case: Case) -> list[masked.Sequence]:
    """Pairs of 10, 30 and 90 tokens with A ≠ 0, and two runs of 10 tokens.

    One of these runs has V < 0, and one starts at a single point.
    """
    sequences = []
    for n in COUNTS:
        rng = case.rng(f"n={n}")
        Q, K, V = 0.4 * rng.normal(size=(3, 2, 2))
        x, w = 0.5 * rng.uniform(-1, 1, size=(n, 2)), rng.uniform(0.2, 1.8, size=n)
        s, h = np.sort(rng.uniform(size=n)), 0.05 * np.outer(np.eye(n)[0], [0.6, 0.8])
        sequence = masked.Sequence(Q, K, V, x, w / w.sum(), s)
        sequences += [sequence, sequence._replace(x=x + h)]
    rng = case.rng("V < 0")
    Q, K, _ = 0.6 * rng.normal(size=(3, 2, 2))
    x, s = rng.uniform(-1, 1, size=(10, 2)), np.sort(rng.uniform(size=10))
    last = masked.Sequence(Q, K, -1.3 * np.eye(2), x, np.full(10, 0.1), s)
    point = np.broadcast_to([0.6, 0.8], x.shape)
    return [*sequences, last, last._replace(V=1.3 * np.eye(2), x=point)]


def _norm(matrix: Array) -> float:
    return float(np.linalg.norm(matrix, 2))


def _moving_parameters(case: Case) -> Checks:
    """Checks tokens, R(t) and the growth of d for five attentions."""
    pair = [members.BASE, members.NEIGHBOUR]
    runs, paths = members.masked_flows(case)
    far = f"{members.WHY}, over a distance of 0.03, over t = 0.2"
    for name in particles.KINDS:
        reference = particles.reference(name, runs, members.BASE)
        final = paths[name][members.BASE, -1]
        yield gap(f"tokens at t = 1, {name}", final, reference, **members.STEPS)
        lengths = np.linalg.norm(paths[name], axis=-1).max(axis=-1)
        R = np.stack([bounds.radii(name, runs, m) for m in range(len(runs.x))])
        share = np.max((lengths / R)[:, 1:])
        yield compare(f"largest |x|/R(t), {name}", share, "<=", 1.0, **members.STEPS)
        ends, w = paths[name][pair], runs.w[pair[0]]
        frames = zip(*ends, strict=True)
        d = np.array([members.conditional_distance(x, y, w) for x, y in frames])
        rate = np.max(np.log(d[1:] / d[0]) / np.array(particles.FRAMES[1:]))
        C1, C2 = bounds.rates(name, runs, members.BASE, np.max(R[pair, -1]))
        label = f"largest (1/t) log d(t)/d(0), {name}"
        yield compare(label, rate, "<=", 2 * C1 + C2, tolerance=1e-4, why=far)


@existence.register_control("without Hardy's factor 2, for A = 0 and 90 tokens")
def _(case: Case) -> Checks:
    sequences = _means(case)
    return list(_growth(sequences, masked.carry(sequences), hardy=1.0))[2:]


@existence.register_misprint(
    "C5",
    claim=r"(iii) $\|\Gamma_\mu(s,x) - \Gamma_\nu(s,x)\| \le c(x,R)\,d(\mu,\nu)$ "
    "with $c$ independent of $s$.",
    correction=r"$c(x,R)\,\theta([0,s])^{-\frac12} d(\mu,\nu)$.",
    counterexample="θ = ηδ₀ + (1 - η)δ₁, only the atom at position 0 moved, s = 0, η "
    "to 1e-4",
)
def _(case: Case) -> Counterexample:
    # The ratio $|\Gamma_\mu - \Gamma_\nu|(0,x)/d$ is compared with $c$, for several
    # masses η at position 0.
    rng = case.rng("shares")
    Q, K = 0.4 * rng.uniform(0.5, 1, size=2)
    V, R, x, h = 1.2, 1.0, 0.5, 0.3
    later, s = rng.uniform(-1, 1), np.array([0.0, 1.0, 1.0])
    sequences = []
    for eta in SHARES:
        w = np.array([eta, 1 - eta, 0.0])
        places = [np.array([y, later, 0.0]) for y in (0.2, 0.2 + h)]
        sequences += [masked.line_sequence((Q, K, V), z, w, s) for z in places]
    fields = masked.velocities(sequences, x, 0.0).reshape(-1, 2)
    distances = np.abs(np.diff(fields)[:, 0])
    a = Q * K * R * x / masked.EPSILON
    ratios, c = distances / (np.sqrt(SHARES) * h), V * (1 + 2 * a) * np.exp(2 * a)
    largest = np.max(ratios * np.sqrt(SHARES)) / c
    label = "order of |Γ_μ - Γ_ν| / d in η"
    return Counterexample(
        misprint=(compare("|Γ_μ - Γ_ν|(0, x) / (c d)", ratios.max() / c, "<=", 1.0),),
        correction=(
            compare("|Γ_μ - Γ_ν|(0, x) η^½ / (c d)", largest, "<=", 1.0),
            order(label, SHARES, ratios, -0.5, names=("η", "ratio")),
        ),
    )


def _growth(
    sequences: list[masked.Sequence], paths: list[Array], *, hardy: float
) -> Checks:
    r"""Compares $\frac1t\log\frac{d(t)}{d(0)}$ with `hardy` · $C_1 + C_2R^2$."""
    why = f"{WHY}, over a distance of 0.05/√900 at least, over t = 1/4"
    for i in range(0, 6, 2):
        sequence, pair = sequences[i], (paths[i], paths[i + 1])
        frames = zip(*pair, strict=True)
        d = np.array([masked.distance(x, y, sequence.w, 2.0) for x, y in frames])
        v, starts = _norm(sequence.V), [path[0] for path in pair]
        R = np.max(np.linalg.norm(starts, axis=-1)) * np.exp(v)
        a = _norm(sequence.K.T @ sequence.Q) / masked.EPSILON * R**2
        rate = np.max(np.log(d[1:] / d[0]) / masked.FRAMES[1:])
        bound = v * (hardy * (1 + 2 * a) * np.exp(2 * a) + a)
        label = f"largest (1/t) log d(t)/d(0), n = {len(sequence.x)}, "
        label += f"A = {a / R**2:.2g}"
        yield compare(label, rate, "<=", bound, tolerance=1e-2, why=why)


SHARES = (1e-1, 1e-2, 1e-3, 1e-4)
