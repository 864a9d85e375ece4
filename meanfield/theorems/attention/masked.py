"""Masked attention."""

from collections.abc import Callable

from meanfield.attention import Attention, plans
from meanfield.dynamics import Prefix, Window, causal
from meanfield.measures import Blocked
from meanfield.scores import Masked
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import bounded, close, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.attentions import FORMULAS
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk

Mask = Callable[[JaxArray, JaxArray], JaxArray]
Sees = Callable[[float, float], bool]
Places = Callable[[Cloud], Array]
WIDTH = 0.3
ROUNDED = 1e-12  # of positions, by which one at the edge of a window may be beyond it


def before(query: float, key: float) -> bool:
    """Whether a query sees a key: those at its place and before."""
    return bool(key <= query)


def within(query: float, key: float) -> bool:
    """Those at most `WIDTH` before."""
    return bool(key <= query <= key + WIDTH + ROUNDED)


def _places(at: Cloud) -> Array:
    return np.zeros(len(at.x)) if at.position is None else at.position


def strictly_before(query: float, key: float) -> bool:
    """The same with the diagonal masked too: off by one."""
    return bool(key < query)


def all_within(query: float, key: float) -> bool:
    """Those within `WIDTH` on either side."""
    return bool(abs(query - key) <= WIDTH + ROUNDED)


@statement(
    "castin2025:eq-2.6",
    source="(2.6), (2.7), §2.6",
    aliases=("castin2025:eq-2.7",),
    claim=r"Masked attention moves token $i$ by tokens $1, \ldots, i$ alone. It is the "
    r"velocity $\Gamma_{\mu_s}(x)$ of $\mu$ restricted to positions $\le s$ and "
    r"divided by $\theta([0, s])$, for $\bar\mu = \frac1n\sum_i\delta_{(i/n, x_i)}$ "
    r"and for any weights.",
    hypotheses=r"any variant; positions in any order, also equal ones",
    control=(
        "positions are all one; the diagonal is masked too, and the window two-sided",
        {
            "places": lambda at: np.ones(len(at.x)),
            "sees": strictly_before,
            "near": all_within,
        },
        (
            "change of the first 20 of 30",
            "softmax, …",
            "l2, masked",
            "linear-expansion, masked",
            "sigmoid, …",
            "matrix of …",
        ),
    ),
)
def masked(
    case: Case, *, sees: Sees = before, near: Sees = within, places: Places = _places
) -> Checks:
    """The library's two ways, Prefix and Masked, against loops over what is seen.

    Softmax, L2, expansion, sigmoid and Sinkhorn; unequal weights, unsorted positions
    with a tie; a sum in blocks; matrices; a window of positions; and thirty ordered
    tokens of which the last ten are moved.
    """
    exact = (_sums(case), _future(case, places), _sinkhorn(case))
    yield from exact
    # All of them against (2.7), in NumPy.
    rng = case.rng("sequence")
    p, at = att.generic(rng, 2, 3), _sequence(rng, N)
    at.w[np.argmin(_places(at))] = 0.0  # the first of all sees nothing, and stays
    for label, actual in _library(p, at).items():
        some = near if "window" in label else sees
        expected = _restricted(label.split(",")[0], p, at, some)
        if label == "sigmoid, masked":  # a link alone does not renormalise
            share = np.array([_seen(at, some, i).w.sum() for i in range(N)])
            expected = expected * (share / at.w.sum())[:, None]
        yield close(label, actual, expected)
    yield from _plans(case, sees)


def _sequence(rng: Rng, n: int) -> Cloud:
    """Tokens in no order, with unequal weights and a tie."""
    at = att.cloud(rng, n, 3)
    place = rng.permutation(np.arange(1, n + 1) / n)
    place[place == 3 / n] = 2 / n
    return at._replace(position=place)


def _seen(at: Cloud, sees: Sees, query: int) -> Cloud:
    """The measure restricted to what one token sees, renormalised by its weights."""
    s = _places(at)
    kept = [j for j in range(len(s)) if sees(s[query], s[j]) and at.w[j] > 0]
    return Cloud(at.x[kept], at.w[kept])


def _restricted(name: str, p: Parameters, at: Cloud, sees: Sees) -> Array:
    """(2.7) token by token: attention of the restricted measure; nothing seen, none."""
    rows = np.zeros_like(at.x)
    for i, x in enumerate(at.x):
        some = _seen(at, sees, i)
        if len(some.x):
            (rows[i],) = FORMULAS[name](p, some, x[None])
    return rows


def _masked(made: Attention, mask: Mask) -> Attention:
    """The library's variant with a masked score."""
    return Attention(Masked(made.score, mask), made.coupling, made.value)


N = 30


@eqx.filter_jit
def _library(p: Parameters, at: Cloud) -> dict[str, JaxArray]:
    """Velocities of the tokens, in the library's ways, by variant, way and mask."""
    window = Window(WIDTH)
    names = ("softmax", "l2", "linear-expansion", "sigmoid")
    softmax, l2, expansion, sigmoid = map(p.attention, names)
    fields = {
        "softmax, Prefix": Prefix(softmax),
        "sigmoid, Prefix, window": Prefix(sigmoid, window),
        "l2, masked": _masked(l2, causal),
        "linear-expansion, masked": _masked(expansion, causal),
        "sigmoid, masked": _masked(sigmoid, causal),
        "softmax, masked, window": _masked(softmax, window),
    }
    mu, blocks = att.points(at), att.points(at, Blocked(8))
    found = {label: each.field(0.0, mu)(mu.tokens) for label, each in fields.items()}
    masked = _masked(softmax, causal).field(0.0, blocks)(mu.tokens)
    return found | {"softmax, masked, in blocks": masked}


@eqx.filter_jit
def _matrices(p: Parameters, at: Cloud) -> tuple[JaxArray, JaxArray]:
    """The library's matrices of softmax, both ways."""
    made, mu = p.attention("softmax"), att.points(at)
    return plans(Prefix(made), 0.0, mu)[0], plans(_masked(made, causal), 0.0, mu)[0]


def _plans(case: Case, sees: Sees) -> Checks:
    """The matrices of both ways, zero where nothing may be seen."""
    rng = case.rng("matrices")
    p, at = att.generic(rng, 2, 3), _sequence(rng, 4)
    s = _places(at)
    at.w[np.argmin(s)] = 0.0  # the first of all sees nothing, and looks at nothing
    allowed = np.array([[sees(a, b) for b in s] for a in s])
    kernel = np.exp(sk.scores_of(p, at)) * at.w * allowed
    expected = kernel / np.maximum(kernel.sum(axis=1, keepdims=True), 1e-300)
    prefix, masked = _matrices(p, at)
    yield close("matrix of Prefix", prefix, expected)
    yield close("matrix of the mask", masked, expected)


def _sinkhorn(case: Case) -> Check:
    """Sinkhorn, balanced prefix by prefix; the library's converged to 4e-11."""
    rng = case.rng("sinkhorn")
    p, at = att.generic(rng, 2, 3), _sequence(rng, 5)
    actual = att.velocity(Prefix(p.attention("sinkhorn")), at, at)
    expected, error = _restricted("sinkhorn", p, at, before), 0.0
    for i in range(5):
        some = _seen(at, before, i)
        solved = sk.converged(sk.scores_of(p, some), some.share)
        error = max(error, solved.error * float(np.max(np.abs(solved.kappa))))
    why = "marginals solved to 4e-11, over the spectral gaps of the prefixes"
    return gap("Prefix of sinkhorn", actual, expected, tolerance=error, why=why)


def _ordered(case: Case) -> tuple[Parameters, Cloud]:
    rng = case.rng("ordered")
    p = att.generic(rng, 2, 3)
    return p, Cloud(rng.normal(size=(N, 3)), np.ones(N), np.arange(1, N + 1) / N)


def _future(case: Case, at: Places) -> Check:
    """How far tokens move the velocities of those before them, at these positions."""
    p, one = _ordered(case)
    one = one._replace(position=at(one))
    other = one._replace(x=one.x + 3.0 * (np.arange(N) >= 20)[:, None])
    v, w = (_library(p, each)["softmax, Prefix"][:20] for each in (one, other))
    label, why = "change of the first 20 of 30", "a masked token is an exact zero"
    change = np.max(np.abs(np.asarray(v) - np.asarray(w)))
    return bounded(label, change, "=", 0.0, tolerance=1e-15, why=why)


def _sums(case: Case) -> Check:
    """(2.6) itself: token i of an ordered sequence, by a sum from 1 to i."""
    p, at = _ordered(case)
    rows = []
    for i in range(N):
        scores = ref.dot_scores(p.Q, p.K, at.x[i : i + 1], at.x[: i + 1]) / p.epsilon
        w = np.full(i + 1, 1 / (i + 1))
        rows.append(ref.normalised_velocity(scores, w, p.V, at.x[: i + 1]))
    actual = _library(p, at)["softmax, Prefix"]
    return close("30 ordered tokens, sums to i", actual, np.concatenate(rows))
