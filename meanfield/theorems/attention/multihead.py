"""Several heads, and sums of attentions."""

from meanfield.attention import plans
from meanfield.dynamics import Heads, Interpolated, Layers, LogTime, Sum, stack_trees
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import close, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.attentions import FORMULAS
from meanfield.theorems.library.ensembles import small_draws
from meanfield.theorems.library.measures import worst_convergence
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.measures import hermite_nodes

H, D = 3, 6


@statement(
    "castin2025:eq-2.9",
    source="(2.9), §2.7",
    claim=r"Multi-head attention is the sum $\Gamma^{MH} = \sum_h \Gamma^{(h)}$ of "
    r"heads with $Q^{(h)}$, $K^{(h)}$ of $k$ rows and values $V^{(h)}$; stacked, they "
    r"are the rows of square matrices $Q$, $K$.",
    hypotheses=r"heads of any variant; also Gaussians, whose fields add up",
)
def heads(case: Case) -> Checks:
    """Compares the library's heads and sums of attentions with sums computed in NumPy.

    The three heads take slices of the rows of square Q and K, and tokens have weights.
    Five more things are compared: sums of different variants, and sums of heads and
    another term; attention matrices of heads, layers and interpolated parameters;
    layers and interpolated parameters in logarithmic time; the closed form on a
    Gaussian; and the residual that a sum reports if several of its terms have solvers.
    """
    _, right = _slice_heads(case.rng("points"))
    yield from _points(case, right)
    yield _plans(case, right)
    yield _gaussian_check(case, 1.0)
    yield worst_convergence()


@heads.register_control("each head takes all the rows of Q and K; a head counts half")
def _(case: Case) -> Checks:
    whole, right = _slice_heads(case.rng("points"))
    full = [whole._replace(V=p.V) for p in right]
    return (*_points(case, full), _plans(case, full), _gaussian_check(case, 0.5))


def _slice_heads(rng: Rng) -> tuple[Parameters, list[Parameters]]:
    """Parameters with square Q and K, and H heads with D/H rows of Q and K each."""
    whole = att.random_parameters(rng, D, D)
    V = 0.6 * rng.normal(size=(H, D, D))
    size = D // H
    cut = [slice(h * size, (h + 1) * size) for h in range(H)]
    parts = ((whole.Q[rows], whole.K[rows], V[h]) for h, rows in enumerate(cut))
    heads = [Parameters(*matrices, whole.epsilon) for matrices in parts]
    return whole._replace(V=V.sum(axis=0)), heads


@eqx.filter_jit
def _library(heads: list[Parameters], cloud: Cloud) -> dict[str, JaxArray]:
    """The library's velocities at the tokens, for several sums of heads."""
    several = Heads(stack_trees([p.attention("softmax") for p in heads]))
    first, second, third = heads
    minus = second._replace(V=-0.4 * second.V)
    sums = {
        "heads": several,
        "heads of linear": Heads(stack_trees([p.attention("linear") for p in heads])),
        "unlike terms": Sum(first.attention("l2"), third.attention("sigmoid")),
        "heads and a term": Sum(several, minus.attention("softmax")),
    }
    mu = att.points(cloud)
    velocities = {
        label: dynamics.field(0.0, mu)(mu.tokens) for label, dynamics in sums.items()
    }
    sigmoids = stack_trees([p.attention("sigmoid") for p in heads[:2]])
    clock = LogTime(Layers([0.0, 1.0, 2.0], sigmoids))
    for label, s in (("first layer", 0.4), ("second layer", clock.jumps[0])):
        velocities[f"{label}, log time"] = clock.field(s, mu)(mu.tokens)
    field = LogTime(Interpolated([0.0, 4.0], sigmoids)).field(0.4, mu)
    return velocities | {"between nodes, log time": field(mu.tokens)}


def _interpolate(first: Parameters, second: Parameters, share: float) -> Parameters:
    """Parameters interpolated linearly between two sets."""
    pairs = zip(first[:3], second[:3], strict=True)
    Q, K, V = ((1 - share) * np.asarray(a) + share * np.asarray(b) for a, b in pairs)
    return first._replace(Q=Q, K=K, V=V)


def _reference_velocities(heads: list[Parameters], cloud: Cloud) -> dict[str, Array]:
    """Velocities at the tokens, summed over heads in NumPy."""
    total = lambda name: sum(FORMULAS[name](p, cloud, cloud.x) for p in heads)
    l2, sigmoid = FORMULAS["l2"], FORMULAS["sigmoid"]
    first, second, third = heads
    softmax = np.asarray(total("softmax"))
    blend = _interpolate(first, second, np.expm1(0.4) / 4)
    return {
        "heads": softmax,
        "heads of linear": np.asarray(total("linear")),
        "unlike terms": l2(first, cloud, cloud.x) + sigmoid(third, cloud, cloud.x),
        "heads and a term": softmax - 0.4 * att.softmax(second, cloud, cloud.x),
        "between nodes, log time": np.exp(0.4) * sigmoid(blend, cloud, cloud.x),
        "first layer, log time": np.exp(0.4) * sigmoid(first, cloud, cloud.x),
        "second layer, log time": 2 * sigmoid(second, cloud, cloud.x),
    }


def _points(case: Case, heads: list[Parameters]) -> list[Check]:
    """Compares the library's sums of heads with sums over `heads` in NumPy."""
    rng = case.rng("points")
    _, right = _slice_heads(rng)
    cloud = att.random_cloud(rng, 7, D)
    actual, expected = _library(right, cloud), _reference_velocities(heads, cloud)
    return [close(label, actual[label], expected[label]) for label in expected]


@eqx.filter_jit
def _matrices(heads: list[Parameters], cloud: Cloud) -> JaxArray:
    """The library's attention matrices at time one, for all heads and five terms."""
    several = Heads(stack_trees([p.attention("softmax") for p in heads]))
    sigmoids = [p.attention("sigmoid") for p in heads[:2]]
    terms = (
        Layers([0.0, 1.0, 2.0], stack_trees(sigmoids)),
        Interpolated([0.0, 4.0], stack_trees(sigmoids)),
        Interpolated([-1.0, 0.5], stack_trees(sigmoids)),
        heads[0].attention("linear-expansion"),
        heads[2].attention("l2"),
    )
    return plans(Sum(several, *terms), 1.0, att.points(cloud))


def _plans(case: Case, heads: list[Parameters]) -> Check:
    """Compares the matrices of all heads and terms with NumPy computations.

    Time one is the boundary between two layers; there, the second layer already acts.
    """
    rng = case.rng("points")
    _, right = _slice_heads(rng)
    cloud, (first, second, third) = att.random_cloud(rng, 7, D), heads
    w, kernel = cloud.share, first.epsilon**2 * sk.scores_of(first, cloud)
    blend = _interpolate(first, second, 0.25)
    distances = ref.distance_scores(third.Q, third.K, cloud.x, cloud.x) / third.epsilon
    expected = [
        *(ref.row_softmax(sk.scores_of(p, cloud), w) for p in heads),
        ref.sigmoid(sk.scores_of(second, cloud)) * w,
        ref.sigmoid(sk.scores_of(blend, cloud)) * w,
        ref.sigmoid(sk.scores_of(second, cloud)) * w,
        (1 + kernel - (kernel @ w)[:, None]) * w,
        ref.row_softmax(distances, w),
    ]
    return close("matrices", _matrices(right, cloud), np.stack(expected))


def _gaussian_check(case: Case, share: float) -> Check:
    """Compares two heads plus an L2 term on a Gaussian with sums over nodes.

    `share` multiplies the value matrix of the library's second head.
    """
    rng = case.rng("gaussian")
    draws = small_draws(rng, 2, 3)
    mean, factor = draws[0].mean, draws[0].factor
    small = lambda M: M * np.sqrt(0.125) / np.linalg.norm(M @ factor, 2)
    epsilon = np.asarray(1.6)
    matrices = ((small(draw.Q), small(draw.K), draw.V) for draw in draws)
    first, second, third = (Parameters(*parts, epsilon) for parts in matrices)
    probes = mean + rng.uniform(-1, 1, size=(4, 2)) @ factor.T
    x, w = hermite_nodes(mean, factor, 24)
    cloud = Cloud(x, w)
    expected = sum(att.softmax(p, cloud, probes) for p in (first, second))
    expected = expected + att.l2(third, cloud, probes)
    scaled_second = second._replace(V=share * second.V)
    heads = Heads(stack_trees([p.attention("softmax") for p in (first, scaled_second)]))
    dynamics = Sum(heads, third.attention("l2"))
    actual = att.gaussian_velocity(dynamics, att.gaussian(mean, factor), probes)
    why = "Gauss–Hermite error of tilts below 1/4, 1e-13 by self-convergence"
    return gap("Gaussian", actual, expected, tolerance=1e-11, why=why)
