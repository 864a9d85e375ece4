"""Gaussians under softmax attention with several heads."""

from collections.abc import Callable, Sequence

from meanfield.attention import attentions
from meanfield.dynamics import Heads, LogTime, stacked
from meanfield.endings import Status
from meanfield.flows import Steady
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, counted, gap
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.library.attentions import gaussian
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes
from meanfield.tokens import Tokens

UNIT = np.linspace(0, 1, 9)
CUT = (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]))  # the identity, a head for each row

Head = tuple[Array, Array, Array]  # Q, K, V


@statement(
    "castin2025:prop-4.9",
    source="Proposition 4.9, §4.3",
    claim=r"With heads, $\Sigma' = \sum_h (V^{(h)}\Sigma A^{(h)}\Sigma + \Sigma "
    r"A^{(h)\top}\Sigma V^{(h)\top})$ and $\alpha' = \sum_h V^{(h)}(I + \Sigma "
    r"A^{(h)})\alpha$.",
    hypotheses=r"$\Sigma_0 \succeq 0$; $V^{(h)}$ has absorbed $W^{(h)}$",
    control=(
        "The values of the two heads are exchanged",
        {"values": lambda draws: draws.value[:, ::-1]},
    ),
)
def heads(
    case: Case, *, values: Callable[["_Draws"], Array] = lambda draws: draws.value
) -> Checks:
    """Flows of two heads in d = 2 with means against DOP853 on the equations.

    The field against the sum over heads of softmax on Gauss–Hermite nodes in NumPy.
    """
    draws = _Draws(case)
    V = values(draws)
    yield from _moments(draws, V)
    # Σ_h of softmax over a cloud, in NumPy, for the first draw.
    Q, K, mean, Y = draws.Q[0], draws.K[0], draws.mean[0], draws.factor[0]
    stack = jnp.asarray(np.stack([Q, K, draws.value[0]]))
    actual = _velocity(stack, gaussian(mean, Y), jnp.asarray(draws.probes))
    x, w = hermite_nodes(mean, Y, 24)
    expected = sum(
        ref.normalised_velocity(ref.dot_scores(q, k, draws.probes, x), w, v, x)
        for q, k, v in zip(Q, K, V[0], strict=True)
    )
    why = (
        "tilts at most 2: 24 nodes leave 2⁴⁸·24!/48! < 2e-23, and rounding of 576 terms"
    )
    yield gap("velocity against a cloud", actual, expected, tolerance=1e-11, why=why)


@heads.misprinted(
    "C31",
    printed="One $V$ for all heads, and $W^{(h)}$, which §2.7 had absorbed, once more; "
    r"read as $\Sigma' = \sum_h (W^{(h)}V\Sigma A^{(h)}\Sigma + \ldots)$.",
    corrected=r"$V^{(h)}$ for each head, $W^{(h)}$ absorbed.",
    counterexample="two random heads in d = 2: one V for both; W applied a second time",
)
def _(case: Case) -> Counterexample:
    draws = _Draws(case)
    shared = draws.W @ draws.V[:, :1]
    return Counterexample(
        printed=(*_moments(draws, shared), *_moments(draws, draws.W @ draws.value)),
        corrected=_moments(draws, draws.value),
    )


class _Draws:
    """Eight pairs of heads, two outer values absorbed in them, and Gaussians."""

    def __init__(self, case: Case) -> None:
        rng, n = case.rng("heads"), case.pick(8, 24)
        heads = rng.normal(size=(4, n, 2, 2, 2))
        self.Q, self.K, self.V, self.W = lib.sized(heads, 0.8)
        self.mean = rng.normal(size=(n, 2)) / 2
        self.factor = lib.sized(rng.normal(size=(n, 2, 2)), 0.7)
        self.probes = rng.normal(size=(3, 2))

    @property
    def value(self) -> Array:
        """$V^{(h)}$ after §2.7: the outer value times the inner one."""
        return self.W @ self.V

    def equations(self, values: Array) -> tuple[Array, Array]:
        """Moments by the printed equations with these values."""
        A = np.swapaxes(self.K, -1, -2) @ self.Q
        means, covariances = columns(
            lib.moments(list(zip(v, a, strict=True)), (m, Y), UNIT)
            for v, a, m, Y in zip(values, A, self.mean, self.factor, strict=True)
        )
        return means, covariances


def two_heads(
    members: Sequence[Sequence[Head]], start: tuple[Array, Array], ts: Array
) -> lib.Paths:
    """The library's flows of two heads in the plane, until they rest, to any time."""
    make = attentions["softmax"]
    stacks = [stacked([make(*head) for head in heads]) for heads in members]
    dynamics = LogTime(Heads(stacked(stacks)))
    return lib.paths(dynamics, start, np.log1p(ts), stop=Steady(1e-4)).in_plain_time()


def _moments(draws: _Draws, values: Array) -> Checks:
    parts = zip(draws.Q, draws.K, draws.value, strict=True)
    heads = [list(zip(*part, strict=True)) for part in parts]
    run = two_heads(heads, (draws.mean, draws.factor), UNIT)
    means, covariances = draws.equations(values)
    yield gap("mean", run.means, means, **lib.FLOWN)
    yield gap("covariance", run.covariances, covariances, **lib.FLOWN)


@eqx.filter_jit
def _velocity(stack: JaxArray, mu: Gaussian, probes: JaxArray) -> JaxArray:
    """The library's heads at probes."""
    heads = Heads(eqx.filter_vmap(attentions["softmax"])(*stack))
    return heads.field(0.0, mu)(Tokens(probes))


@statement(
    "castin2025:sec-4.5-item3",
    source="§4.5, item 3, and Figure 1(c)",
    claim=r"For two heads of one row each, $A + A^\top \preceq 0$ of rank one and $V = "
    r"I$, the limits fill the plane $q^\top\Sigma e_1 = 0$ of the cone, if the second "
    r"head is empty, and lie on the ray $\Sigma q = 0$, if it is not.",
    hypotheses=r"$d = 2$; $V = I$ is cut into $V^{(h)} = e_he_h^\top$; $Q^{(h)} = "
    r"-K^{(h)} = c_hq^\top$; the figure has $c_2 = 0$",
    remark=r"With $s = \Sigma q$ and $D = \mathrm{diag}(c_1^2, c_2^2)$, $\Sigma' = "
    r"-(Dss^\top + ss^\top D)$, which vanishes where $Ds = 0$.",
    control=(
        "The values are exchanged, and the second head is always empty: another plane",
        {"values": CUT[::-1], "second": 0.0},
        ("qᵀΣe₁", "two heads…"),
    ),
)
def plane(
    case: Case, *, values: tuple[Array, Array] = CUT, second: float = 0.8
) -> Checks:
    """Limits of 32 random starts of trace one, with and without a second head.

    Singular values of their coordinates $(a - b, 2c, a + b)$, the closed form of
    the plane and of the ray, and that all come to rest.
    """
    # The second head has `second` times the row of the first.
    run, q = _at_rest(case, values, 0.0)
    both, _ = _at_rest(case, values, second)
    final = run.covariances[:, -1]
    _, wide, flat = _widths(final)
    why = "`Steady` leaves 1e-4 of the way, ten times where two ways add up"
    left = Slack(tolerance=1e-3, why=why)
    line, ray = "a plane, not a line", both.covariances[:, -1]
    off, away = np.max(np.abs(final[:, 0] @ q)), np.max(np.abs(ray @ q))
    yield bounded("third singular value over the first", flat, "<=", 0, **left)
    yield bounded("qᵀΣe₁", off, "<=", 0, **left)
    yield bounded("second singular value over the first", wide, ">=", 0.1, why=line)
    yield counted("runs that do not come to rest", run.ended_otherwise(Status.STEADY))
    yield bounded("two heads: width of the ray", _widths(ray)[1], "<=", 0, **left)
    yield bounded("two heads: Σq", away, "<=", 0, **left)


def _widths(covariances: Array) -> Array:
    """Singular values of $(a - b, 2c, a + b)$, over the largest."""
    a, b, c = (covariances[:, i, j] for i, j in ((0, 0), (1, 1), (0, 1)))
    sizes = np.linalg.svd(np.stack([a - b, 2 * c, a + b], -1), compute_uv=False)
    return sizes / sizes[0]


def _at_rest(
    case: Case, values: tuple[Array, Array], second: float
) -> tuple[lib.Paths, Array]:
    """Flows of two heads, of q and a multiple, from starts of trace one; and `q`."""
    rng, n = case.rng("plane"), case.pick(32, 96)
    r, angle = rng.uniform(0, 0.8, size=n), rng.uniform(0, 2 * np.pi, size=n)
    x, y = r * np.cos(angle), r * np.sin(angle)
    Sigma = np.moveaxis(np.array([[1 + x, y], [y, 1 - x]]), -1, 0) / 2
    factor = np.linalg.cholesky(Sigma)
    q = np.array([[0.4, 0.9], [0.0, 0.0]]) * 1.5
    rows = (q, second * q)
    members = [[(M, -M, V) for M, V in zip(rows, values, strict=True)]] * n
    ts = np.array([0.0, 1.0, 5.0, 20.0, 50.0, 100.0, 300.0, 600.0, 1e3])
    return two_heads(members, lib.centred(factor), ts), q[0]


def one_head(rng: Rng, V: Array, A: Array) -> list[Head]:
    """Softmax as two heads, the second of which does nothing."""
    K, nothing = rng.normal(size=(2, 2)) + 2 * np.eye(2), np.zeros((2, 2))
    return [(np.linalg.solve(K.T, A), K, V), (nothing, nothing, nothing)]
