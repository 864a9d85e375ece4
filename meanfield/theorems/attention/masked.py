"""Masked attention."""

from collections.abc import Callable

from meanfield.attention import Attention
from meanfield.dynamics import Prefix, Window, causal
from meanfield.measures import Blocked
from meanfield.scores import Masked
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import close, compare, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.attentions import FORMULAS
from meanfield.theorems.reference import sinkhorn as sk

Mask = Callable[[JaxArray, JaxArray], JaxArray]
Sees = Callable[[float, float], bool]
Positions = Callable[[Cloud], Array]
WIDTH = 0.3
# Rounding can move a position at the edge of a window out of the window, so
# `POSITION_ROUNDING` is added to the width of the window.
POSITION_ROUNDING = 1e-12


def is_past(query: float, key: float) -> bool:
    """Whether the key is at the query's position or before it."""
    return bool(key <= query)


def is_recent(query: float, key: float) -> bool:
    """Whether the key is at the query's position or at most `WIDTH` before it."""
    return bool(key <= query <= key + WIDTH + POSITION_ROUNDING)


def _positions(cloud: Cloud) -> Array:
    return np.zeros(len(cloud.x)) if cloud.position is None else cloud.position


def is_strictly_past(query: float, key: float) -> bool:
    """Whether the key is before the query; the diagonal is masked too."""
    return bool(key < query)


def is_nearby(query: float, key: float) -> bool:
    """Whether the key is within `WIDTH` of the query, on either side."""
    return bool(abs(query - key) <= WIDTH + POSITION_ROUNDING)


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
            "positions": lambda cloud: np.ones(len(cloud.x)),
            "sees": is_strictly_past,
            "window": is_nearby,
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
def masked_attention(
    case: Case,
    *,
    sees: Sees = is_past,
    window: Sees = is_recent,
    positions: Positions = _positions,
) -> Checks:
    """Compares the library's `Prefix` and `Masked` with loops over visible tokens.

    The variants are softmax, L2, the linear expansion, sigmoid and Sinkhorn attention.
    Weights are unequal. Positions are not sorted, and two are equal. Sums in blocks,
    attention matrices and a window of positions are compared too. When the last ten of
    30 ordered tokens move, the velocities of the first 20 must not change.
    """
    yield from (_sums(case), _future(case, positions), _sinkhorn(case))
    # Every variant is compared with equation (2.7), which NumPy evaluates.
    rng = case.rng("sequence")
    p, cloud = att.random_parameters(rng, 2, 3), _sequence(rng, N)
    # The first token gets weight zero, so that it sees no mass; it must not move.
    cloud.w[np.argmin(_positions(cloud))] = 0.0
    for label, actual in _library(p, cloud).items():
        predicate = window if "window" in label else sees
        expected = _restricted_velocities(label.split(",")[0], p, cloud, predicate)
        if label == "sigmoid, masked":  # `Masked` does not divide by the visible mass
            share = np.array(
                [_visible_cloud(cloud, predicate, i).w.sum() for i in range(N)]
            )
            expected = expected * (share / cloud.w.sum())[:, None]
        yield close(label, actual, expected)
    yield from _plans(case, sees)


def _sequence(rng: Rng, n: int) -> Cloud:
    """Tokens with unequal weights at unsorted positions, two of which are equal."""
    cloud = att.random_cloud(rng, n, 3)
    place = rng.permutation(np.arange(1, n + 1) / n)
    place[place == 3 / n] = 2 / n
    return cloud._replace(position=place)


def _visible_cloud(cloud: Cloud, sees: Sees, query: int) -> Cloud:
    """The tokens of positive weight to which token `query` attends."""
    s = _positions(cloud)
    indices = [j for j in range(len(s)) if sees(s[query], s[j]) and cloud.w[j] > 0]
    return Cloud(cloud.x[indices], cloud.w[indices])


def _restricted_velocities(name: str, p: Parameters, cloud: Cloud, sees: Sees) -> Array:
    """Velocities by equation (2.7); tokens that attend to no token do not move."""
    rows = np.zeros_like(cloud.x)
    for i, x in enumerate(cloud.x):
        part = _visible_cloud(cloud, sees, i)
        if len(part.x):
            (rows[i],) = FORMULAS[name](p, part, x[None])
    return rows


def _mask_attention(attention: Attention, mask: Mask) -> Attention:
    """The given attention with a mask on its score."""
    return Attention(Masked(attention.score, mask), attention.coupling, attention.value)


N = 30


@eqx.filter_jit
def _library(p: Parameters, cloud: Cloud) -> dict[str, JaxArray]:
    """The library's velocities of the tokens, by variant, method and mask."""
    window = Window(WIDTH)
    names = ("softmax", "l2", "linear-expansion", "sigmoid")
    softmax, l2, expansion, sigmoid = map(p.attention, names)
    fields = {
        "softmax, Prefix": Prefix(softmax),
        "sigmoid, Prefix, window": Prefix(sigmoid, window),
        "l2, masked": _mask_attention(l2, causal),
        "linear-expansion, masked": _mask_attention(expansion, causal),
        "sigmoid, masked": _mask_attention(sigmoid, causal),
        "softmax, masked, window": _mask_attention(softmax, window),
    }
    mu, blocks = att.points(cloud), att.points(cloud, Blocked(8))
    velocities = {
        label: dynamics.field(0.0, mu)(mu.tokens) for label, dynamics in fields.items()
    }
    block_velocity = _mask_attention(softmax, causal).field(0.0, blocks)(mu.tokens)
    return velocities | {"softmax, masked, in blocks": block_velocity}


def _plans(case: Case, sees: Sees) -> Checks:
    """Compares the softmax matrices of `Prefix` and of `Masked` with NumPy."""
    rng = case.rng("matrices")
    p, cloud = att.random_parameters(rng, 2, 3), _sequence(rng, 4)
    s = _positions(cloud)
    cloud.w[np.argmin(s)] = 0.0  # the first token then sees no mass, so its row is zero
    visibility = np.array([[sees(a, b) for b in s] for a in s])
    kernel = np.exp(sk.scores_of(p, cloud)) * cloud.w * visibility
    expected = kernel / np.maximum(kernel.sum(axis=1, keepdims=True), 1e-300)
    attention = p.attention("softmax")
    prefix, mask = Prefix(attention), _mask_attention(attention, causal)
    yield close("matrix of Prefix", att.matrices(prefix, cloud)[0], expected)
    yield close("matrix of the mask", att.matrices(mask, cloud)[0], expected)


def _sinkhorn(case: Case) -> Check:
    """Compares `Prefix` of Sinkhorn attention with one Sinkhorn solve per prefix."""
    rng = case.rng("sinkhorn")
    p, cloud = att.random_parameters(rng, 2, 3), _sequence(rng, 5)
    actual = att.velocity(Prefix(p.attention("sinkhorn")), cloud, cloud)
    expected, error = _restricted_velocities("sinkhorn", p, cloud, is_past), 0.0
    for i in range(5):
        part = _visible_cloud(cloud, is_past, i)
        solution = sk.solve_density(sk.scores_of(p, part), part.share)
        error = max(error, solution.error * float(np.max(np.abs(solution.kappa))))
    why = "marginals solved to 4e-11, over the spectral gaps of the prefixes"
    return gap("Prefix of sinkhorn", actual, expected, tolerance=error, why=why)


def _ordered_sequence(case: Case) -> tuple[Parameters, Cloud]:
    rng = case.rng("ordered")
    p = att.random_parameters(rng, 2, 3)
    return p, Cloud(rng.normal(size=(N, 3)), np.ones(N), np.arange(1, N + 1) / N)


def _future(case: Case, positions: Positions) -> Check:
    """Check that later tokens do not change the velocities of earlier ones."""
    p, cloud = _ordered_sequence(case)
    cloud = cloud._replace(position=positions(cloud))
    moved_cloud = cloud._replace(x=cloud.x + 3.0 * (np.arange(N) >= 20)[:, None])
    v, w = (_library(p, x)["softmax, Prefix"][:20] for x in (cloud, moved_cloud))
    label, why = "change of the first 20 of 30", "a masked token is an exact zero"
    change = np.max(np.abs(np.asarray(v) - np.asarray(w)))
    return compare(label, change, "=", 0.0, tolerance=1e-15, why=why)


def _sums(case: Case) -> Check:
    """Checks (2.6): the velocity of token i is a sum over tokens 1 to i."""
    p, cloud = _ordered_sequence(case)
    rows = []
    for i, x in enumerate(cloud.x):
        rows.append(att.softmax(p, att.uniform_cloud(cloud.x[: i + 1]), x[None]))
    actual = _library(p, cloud)["softmax, Prefix"]
    return close("30 ordered tokens, sums to i", actual, np.concatenate(rows))
