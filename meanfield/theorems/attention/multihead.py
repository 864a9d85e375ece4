"""Several heads, and sums of attentions."""

from meanfield.attention import plans
from meanfield.dynamics import Heads, Interpolated, Layers, LogTime, Sum, stacked
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import close, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.attentions import FORMULAS
from meanfield.theorems.library.ensembles import small_draws
from meanfield.theorems.library.measures import furthest
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
    """The library's heads and sums against NumPy's, head by head.

    Three slices of square Q and K with weighted tokens; sums of unlike terms and of
    heads with a term; a matrix for each, of layers and of parameters between two nodes
    and after them too; layers in logarithmic time; and the closed form on a Gaussian.
    Of the errors of several iterations the one that is told.
    """
    _, right = _sliced(case.rng("points"))
    yield from _points(case, right)
    yield _plans(case, right)
    yield _on_gaussian(case, 1.0)
    yield furthest()


@heads.refuted_by("each head takes all the rows of Q and K; a head counts half")
def _(case: Case) -> Checks:
    whole, right = _sliced(case.rng("points"))
    full = [whole._replace(V=p.V) for p in right]
    return (*_points(case, full), _plans(case, full), _on_gaussian(case, 0.5))


def _sliced(rng: Rng) -> tuple[Parameters, list[Parameters]]:
    """Square Q and K, and heads with D/H of their rows each and values of their own."""
    whole = att.generic(rng, D, D)
    V = 0.6 * rng.normal(size=(H, D, D))
    size = D // H
    cut = [slice(h * size, (h + 1) * size) for h in range(H)]
    parts = ((whole.Q[rows], whole.K[rows], V[h]) for h, rows in enumerate(cut))
    heads = [Parameters(*matrices, whole.epsilon) for matrices in parts]
    return whole._replace(V=V.sum(axis=0)), heads


@eqx.filter_jit
def _library(heads: list[Parameters], at: Cloud) -> dict[str, JaxArray]:
    """The library's sums of heads at the tokens."""
    several = Heads(stacked([p.attention("softmax") for p in heads]))
    first, second, third = heads
    minus = second._replace(V=-0.4 * second.V)
    made = {
        "heads": several,
        "heads of linear": Heads(stacked([p.attention("linear") for p in heads])),
        "unlike terms": Sum(first.attention("l2"), third.attention("sigmoid")),
        "heads and a term": Sum(several, minus.attention("softmax")),
    }
    mu = att.points(at)
    found = {label: each.field(0.0, mu)(mu.tokens) for label, each in made.items()}
    sigmoids = stacked([p.attention("sigmoid") for p in heads[:2]])
    clock = LogTime(Layers([0.0, 1.0, 2.0], sigmoids))
    for label, s in (("first layer", 0.4), ("second layer", clock.jumps[0])):
        found[f"{label}, log time"] = clock.field(s, mu)(mu.tokens)
    between = LogTime(Interpolated([0.0, 4.0], sigmoids)).field(0.4, mu)
    return found | {"between nodes, log time": between(mu.tokens)}


def _between(one: Parameters, two: Parameters, share: float) -> Parameters:
    """Parameters so far on the way from one to the other."""
    pairs = zip(one[:3], two[:3], strict=True)
    Q, K, V = ((1 - share) * np.asarray(a) + share * np.asarray(b) for a, b in pairs)
    return one._replace(Q=Q, K=K, V=V)


def _expected(heads: list[Parameters], at: Cloud) -> dict[str, Array]:
    """The same, head by head, in NumPy."""
    total = lambda name: sum(FORMULAS[name](p, at, at.x) for p in heads)
    l2, sigmoid = FORMULAS["l2"], FORMULAS["sigmoid"]
    first, second, third = heads
    softmax = np.asarray(total("softmax"))
    between = _between(first, second, np.expm1(0.4) / 4)
    return {
        "heads": softmax,
        "heads of linear": np.asarray(total("linear")),
        "unlike terms": l2(first, at, at.x) + sigmoid(third, at, at.x),
        "heads and a term": softmax - 0.4 * att.softmax(second, at, at.x),
        "between nodes, log time": np.exp(0.4) * sigmoid(between, at, at.x),
        "first layer, log time": np.exp(0.4) * sigmoid(first, at, at.x),
        "second layer, log time": 2 * sigmoid(second, at, at.x),
    }


def _points(case: Case, heads: list[Parameters]) -> list[Check]:
    """The library's sums against these heads."""
    rng = case.rng("points")
    _, right = _sliced(rng)
    at = att.cloud(rng, 7, D)
    found, expected = _library(right, at), _expected(heads, at)
    return [close(label, found[label], expected[label]) for label in expected]


@eqx.filter_jit
def _matrices(heads: list[Parameters], at: Cloud) -> JaxArray:
    """The library's matrices of heads and of five terms besides, at time one."""
    several = Heads(stacked([p.attention("softmax") for p in heads]))
    sigmoids = [p.attention("sigmoid") for p in heads[:2]]
    terms = (
        Layers([0.0, 1.0, 2.0], stacked(sigmoids)),
        Interpolated([0.0, 4.0], stacked(sigmoids)),
        Interpolated([-1.0, 0.5], stacked(sigmoids)),
        heads[0].attention("linear-expansion"),
        heads[2].attention("l2"),
    )
    return plans(Sum(several, *terms), 1.0, att.points(at))


def _plans(case: Case, heads: list[Parameters]) -> Check:
    """One matrix for each head and term, in order; a layer acts from its edge on."""
    rng = case.rng("points")
    _, right = _sliced(rng)
    at, (one, two, three) = att.cloud(rng, 7, D), heads
    w, kernel = at.share, one.epsilon**2 * sk.scores_of(one, at)
    between = _between(one, two, 0.25)
    distances = ref.distance_scores(three.Q, three.K, at.x, at.x) / three.epsilon
    expected = [
        *(ref.row_softmax(sk.scores_of(p, at), w) for p in heads),
        ref.sigmoid(sk.scores_of(two, at)) * w,
        ref.sigmoid(sk.scores_of(between, at)) * w,
        ref.sigmoid(sk.scores_of(two, at)) * w,
        (1 + kernel - (kernel @ w)[:, None]) * w,
        ref.row_softmax(distances, w),
    ]
    found = _matrices(right, at)
    return close("matrices", found, np.stack(expected))


def _on_gaussian(case: Case, share: float) -> Check:
    """Two heads and a term of L2 on a Gaussian; `share` of the second head's value."""
    rng = case.rng("gaussian")
    draws = small_draws(rng, 2, 3)
    mean, factor = draws[0].mean, draws[0].factor
    small = lambda M: M * np.sqrt(0.125) / np.linalg.norm(M @ factor, 2)
    epsilon = np.asarray(1.6)
    matrices = ((small(draw.Q), small(draw.K), draw.V) for draw in draws)
    one, two, three = (Parameters(*parts, epsilon) for parts in matrices)
    probes = mean + rng.uniform(-1, 1, size=(4, 2)) @ factor.T
    x, w = hermite_nodes(mean, factor, 24)
    at = Cloud(x, w)
    expected = sum(att.softmax(p, at, probes) for p in (one, two))
    expected = expected + att.l2(three, at, probes)
    told = two._replace(V=share * two.V)
    heads = Heads(stacked([p.attention("softmax") for p in (one, told)]))
    dynamics = Sum(heads, three.attention("l2"))
    found = att.on_gaussian(dynamics, att.gaussian(mean, factor), att.bare(probes))
    why = "Gauss–Hermite error of tilts below 1/4, 1e-13 by self-convergence"
    return gap("Gaussian", found, expected, tolerance=1e-11, why=why)
