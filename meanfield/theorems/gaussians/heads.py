"""Gaussians under softmax attention with several heads."""

from collections.abc import Callable, Sequence

from meanfield.attention import attentions
from meanfield.dynamics import Heads, LogTime, stack_trees
from meanfield.endings import Status
from meanfield.flows import Steady
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap, zero_count
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.library import moving_parameters as moving
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

UNIT = np.linspace(0, 1, 9)
# The value matrix of each head projects onto one coordinate.
CUT = (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]))

Head = tuple[Array, Array, Array]  # the matrices Q, K and V
NO_HEAD: Head = (np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2)))


@statement(
    "castin2025:prop-4.9",
    source="Proposition 4.9, §4.3",
    claim=r"With heads, $\Sigma' = \sum_h (V^{(h)}\Sigma A^{(h)}\Sigma + \Sigma "
    r"A^{(h)\top}\Sigma V^{(h)\top})$ and $\alpha' = \sum_h V^{(h)}(I + \Sigma "
    r"A^{(h)})\alpha$, for parameters that vary in time too.",
    hypotheses=r"$\Sigma_0 \succeq 0$; $V^{(h)}$ has absorbed $W^{(h)}$",
    control=(
        "The values of the two heads are exchanged",
        {"values": lambda draws: draws.value[:, ::-1]},
    ),
)
def heads(
    case: Case, *, values: Callable[["_Draws"], Array] = lambda draws: draws.value
) -> Checks:
    """Compares the library's flows of two heads in d = 2 with SciPy's DOP853.

    DOP853 solves the equations of α and Σ. Parameters are constant, or linear in time
    in each of two layers. Means are not zero. The field is compared with a NumPy
    softmax on Gauss–Hermite nodes, summed over the heads.
    """
    draws = _Draws(case.rng("heads"), case.pick(8, 24))
    V = values(draws)
    yield from _moments(draws, V)
    moving_draws = _Draws(case.rng("moving"), 4, path=moving.PATH)
    yield from _moving_moments(moving_draws, values(moving_draws))
    # NumPy sums the softmax fields of both heads on Gauss–Hermite nodes, for one draw.
    Q, K, mean, Y = draws.Q[0], draws.K[0], draws.mean[0], draws.factor[0]
    stack = stack_trees(list(map(attentions["softmax"], Q, K, draws.value[0])))
    actual = att.gaussian_velocity(Heads(stack), att.gaussian(mean, Y), draws.probes)
    x, w = hermite_nodes(mean, Y, 24)
    expected = sum(
        ref.normalised_velocity(ref.dot_scores(q, k, draws.probes, x), w, v, x)
        for q, k, v in zip(Q, K, V[0], strict=True)
    )
    why = (
        "tilts at most 2: 24 nodes leave 2⁴⁸·24!/48! < 2e-23, and rounding of 576 terms"
    )
    yield gap("velocity against a cloud", actual, expected, tolerance=1e-11, why=why)


@heads.register_misprint(
    "C31",
    claim="One $V$ for all heads, and $W^{(h)}$, which §2.7 had absorbed, once more; "
    r"read as $\Sigma' = \sum_h (W^{(h)}V\Sigma A^{(h)}\Sigma + \ldots)$.",
    correction=r"$V^{(h)}$ for each head, $W^{(h)}$ absorbed.",
    counterexample="two random heads in d = 2: one V for both; W applied a second time",
)
def _(case: Case) -> Counterexample:
    draws = _Draws(case.rng("heads"), case.pick(8, 24))
    common_values = draws.W @ draws.V[:, :1]
    return Counterexample(
        misprint=(
            *_moments(draws, common_values),
            *_moments(draws, draws.W @ draws.value),
        ),
        correction=_moments(draws, draws.value),
    )


class _Draws:
    """Random pairs of heads with outer values W, and random Gaussians.

    `path` holds the axes of parameters that move in time.
    """

    def __init__(self, rng: Rng, n: int, *, path: tuple[int, ...] = ()) -> None:
        heads = rng.normal(size=(4, n, 2, *path, 2, 2))
        self.Q, self.K, self.V, self.W = lib.scale_to_norm(heads, 0.8)
        self.mean = rng.normal(size=(n, 2)) / 2
        self.factor = lib.scale_to_norm(rng.normal(size=(n, 2, 2)), 0.7)
        self.probes = rng.normal(size=(3, 2))

    @property
    def value(self) -> Array:
        """Value matrix $V^{(h)}$ as in §2.7: the outer value times the inner value."""
        return self.W @ self.V

    def equations(self, values: Array) -> tuple[Array, Array]:
        """Means and covariances from the equations, with the given value matrices."""
        A = np.swapaxes(self.K, -1, -2) @ self.Q
        means, covariances = columns(
            lib.moments(list(zip(v, a, strict=True)), (m, Y), UNIT)
            for v, a, m, Y in zip(values, A, self.mean, self.factor, strict=True)
        )
        return means, covariances


def two_heads(
    members: Sequence[Sequence[Head]], start: tuple[Array, Array], ts: Array
) -> lib.Paths:
    """The library's flows of two heads in the plane, until they are steady.

    If a member has one head, its second head is zero.
    """
    make, pairs = attentions["softmax"], [[*heads, NO_HEAD][:2] for heads in members]
    stacks = [stack_trees([make(*head) for head in pair]) for pair in pairs]
    dynamics = LogTime(Heads(stack_trees(stacks)))
    return lib.paths(dynamics, start, np.log1p(ts), stop=Steady(1e-4)).to_plain_time()


def _moments(draws: _Draws, values: Array) -> Checks:
    parts = zip(draws.Q, draws.K, draws.value, strict=True)
    heads = [list(zip(*part, strict=True)) for part in parts]
    run = two_heads(heads, (draws.mean, draws.factor), UNIT)
    means, covariances = draws.equations(values)
    yield lib.flow_gap("mean", run.means, means)
    yield lib.flow_gap("covariance", run.covariances, covariances)


def _moving_moments(draws: _Draws, values: Array) -> Checks:
    """Compares the library's flows of two moving heads with the equations."""
    Q, K, V = map(jnp.asarray, (draws.Q, draws.K, draws.value))
    dynamics, start = _moving_heads(Q, K, V), (draws.mean, draws.factor)
    run, states = lib.paths(dynamics, start, np.log1p(moving.TIMES)), []
    for *parts, m, Y in zip(draws.Q, draws.K, values, *start, strict=True):

        def rate(middle: float, t: float, y: Array, parts: list = parts) -> Array:
            at_time = lambda paths: [moving.value_at(path, t, middle) for path in paths]
            heads = zip(*map(at_time, parts), strict=True)
            return lib.moments_rate([(V, K.T @ Q) for Q, K, V in heads])(t, y)

        y = np.column_stack([m, Y @ Y.T])
        states.append(ref.integrate_pieces(rate, y, moving.TIMES))
    expected = np.stack(states)
    yield lib.flow_gap("mean, moving", run.means, expected[..., 0])
    yield lib.flow_gap("covariance, moving", run.covariances, expected[..., 1:])


@eqx.filter_jit
@eqx.filter_vmap
def _moving_heads(Q: JaxArray, K: JaxArray, V: JaxArray) -> LogTime:
    """The library's sum of moving heads, for each member of a batch."""
    head = lambda *paths: moving.moving_attention("softmax", *paths)
    return LogTime(Heads(eqx.filter_vmap(head)(Q, K, V)))


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
        "The values are exchanged, which gives another plane; the second head is empty",
        {"values": CUT[::-1], "second": 0.0},
        ("qᵀΣe₁", "two heads…"),
    ),
)
def plane(
    case: Case, *, values: tuple[Array, Array] = CUT, second: float = 0.8
) -> Checks:
    """Checks the limits of the library's flows, without and with a second head.

    The flows start from 32 random covariances of trace one, and all must become steady.
    The singular values of the coordinates $(a - b, 2c, a + b)$ of the limits are
    checked, as are the equations of the plane and of the ray.
    """
    # The rows of Q and K in the second head are `second` times the rows in the first.
    run, q = _plane_flows(case, values, 0.0)
    second_run, _ = _plane_flows(case, values, second)
    final = run.covariances[:, -1]
    _, wide, flat = _widths(final)
    why = "`Steady` leaves 1e-4 of the distance; ten times that where two parts add up"
    left = Slack(tolerance=1e-3, why=why)
    line, ray = "a plane, not a line", second_run.covariances[:, -1]
    plane_error, ray_error = np.max(np.abs(final[:, 0] @ q)), np.max(np.abs(ray @ q))
    yield compare("third singular value over the first", flat, "<=", 0, **left)
    yield compare("qᵀΣe₁", plane_error, "<=", 0, **left)
    yield compare("second singular value over the first", wide, ">=", 0.1, why=line)
    restless = run.n_other_endings(Status.STEADY)
    yield zero_count("runs that do not come to rest", restless)
    yield compare("two heads: width of the ray", _widths(ray)[1], "<=", 0, **left)
    yield compare("two heads: Σq", ray_error, "<=", 0, **left)


def _widths(covariances: Array) -> Array:
    """Singular values of coordinates $(a - b, 2c, a + b)$, divided by the largest."""
    a, b, c = (covariances[:, i, j] for i, j in ((0, 0), (1, 1), (0, 1)))
    sizes = np.linalg.svd(np.stack([a - b, 2 * c, a + b], -1), compute_uv=False)
    return sizes / sizes[0]


def _plane_flows(
    case: Case, values: tuple[Array, Array], second: float
) -> tuple[lib.Paths, Array]:
    """Flows of two heads whose rows are q and `second` · q; also returns the row q.

    The flows start at covariances of trace one.
    """
    rng, n = case.rng("plane"), case.pick(32, 96)
    r, angle = rng.uniform(0, 0.8, size=n), rng.uniform(0, 2 * np.pi, size=n)
    x, y = r * np.cos(angle), r * np.sin(angle)
    Sigma = np.moveaxis(np.array([[1 + x, y], [y, 1 - x]]), -1, 0) / 2
    factor = np.linalg.cholesky(Sigma)
    q = np.array([[0.4, 0.9], [0.0, 0.0]]) * 1.5
    rows = (q, second * q)
    members = [[(M, -M, V) for M, V in zip(rows, values, strict=True)]] * n
    ts = np.array([0.0, 1.0, 5.0, 20.0, 50.0, 100.0, 300.0, 600.0, 1e3])
    return two_heads(members, lib.centred_start(factor), ts), q[0]


def split_head(rng: Rng, V: Array, A: Array, size: float = 1.0) -> list[Head]:
    """Two heads with the value `V`, whose bilinear forms are random and sum to `A`."""
    part = size * rng.normal(size=(2, 2))
    return [random_head(rng, V, share) for share in (part, A - part)]


def random_head(rng: Rng, V: Array, A: Array) -> Head:
    """Softmax head with the bilinear form `A`, of which the keys are random."""
    K = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    return np.linalg.solve(K.T, A), K, V
