"""Tokens under layers of attention: they collapse without the skip, and not with it."""

import jax.random as jr

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.dynamics import Drift, Sum
from meanfield.flows import flow
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, ascend, attacked, bounded, close, order
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.ensembles import norm

NORMALISED = ("softmax", "sinkhorn")
SIZES = np.array([0.05, 0.025, 0.0125, 0.00625])  # of clouds that a layer contracts
ROUNDED = "rounding of sums over six tokens; Sinkhorn's marginals to 4e-11"
FLOWN = "steps of 4e-10, as many as there are, each smaller than the distance it moves"


def diameter(x: Array) -> float:
    """The largest distance of two tokens."""
    return float(np.max(np.linalg.norm(x[:, None] - x[None, :], axis=-1)))


@statement(
    "new:token-collapse",
    source="This project; the cubic rate of softmax is that of Dong, Cordonnier and "
    "Loukas, Attention is not all you need (2021), introduction",
    claim=r"A layer without skip, $x_i \leftarrow V\sum_jP_{ij}x_j$ with rows of sum "
    r"one and $P_{ij} = a_ie^{s_{ij}}b_j$, takes tokens of diameter $D$ to one of at "
    r"most $|V|\,\delta D$, where $\delta = \max_{i,k}\frac12\sum_j|P_{ij} - P_{kj}| "
    r"\leq \tanh\frac{|A|D^2}{4\epsilon}$: at most $\frac{|A||V|}{4\epsilon}D^3$, and "
    r"with $|V| \leq 1$ they collapse doubly exponentially in depth.",
    hypotheses=r"$s_{ij} = Qx_i\cdot Ky_j/\epsilon$; softmax and Sinkhorn are so, with "
    r"any weights of tokens",
    remark=r"Rows $i$ and $k$ have a quotient whose logarithm varies by at most "
    r"$\omega = |A|D^2/\epsilon$ over $j$, and such probabilities are at most "
    r"$\tanh\frac\omega4$ apart. Hard sliced attention sees ranks and no sizes: no "
    r"cubic rate, and one slice only permutes tokens.",
    control=(
        "a skip is added to each layer",
        {"skip": 1.0},
        ("D after…", "two tokens…", "diameters over δD", "order of D after…"),
    ),
)
def collapse(case: Case, *, skip: float = 0.0) -> Checks:
    r"""Layers of the library: softmax attacked by ascent, random clouds, and sizes.

    Adam ascends the ratio to the tanh for three tokens in the plane; two on a line
    reach it. Of 20 clouds of six weighted tokens in d = 3, softmax and Sinkhorn:
    matrices against $\delta$, row by row; diameters as powers of the first; three
    layers of softmax against NumPy's.
    """
    # `skip` times the tokens themselves is added to a layer.
    label = "D after over |V| tanh(|A|D²/4ε) D"
    yield ascend(case, label, _log_ratio, _start, given=(skip,))
    # Two tokens on a line, for which the bound is an equality.
    one, at = np.eye(1), att.bare(np.array([[-0.7], [0.7]]))
    p = Parameters(one, one, one, np.asarray(0.7))
    D = diameter(at.x)
    after = diameter(_layer(p, "softmax", at, skip))
    yield close("two tokens on a line: the bound is reached", after, _bound(p, D) * D)
    yield from _brute_force(case, skip)
    # Diameters after a layer as powers of those before, for clouds that shrink.
    p, at = _drawn(case, "order")
    middle = at.share @ at.x
    for name in NORMALISED:
        clouds = [at._replace(x=middle + h * (at.x - middle)) for h in SIZES]
        before = [diameter(each.x) for each in clouds]
        after = [diameter(_layer(p, name, each, skip)) for each in clouds]
        label = f"order of D after in D, {name}"
        yield order(label, before, after, 3.0, names=("D", "D after"))
    yield _three_layers(case, skip)


def _log_ratio(at: dict[str, JaxArray], skip: JaxArray) -> JaxArray:
    """The diameter after a layer of softmax over its bound, logarithm."""
    mu = attacked(at["z"], at["w"], 1.0)
    made = attentions["softmax"](at["Q"], at["K"], jnp.eye(2))
    x = mu.tokens.x
    first, last = (
        jnp.sqrt(jnp.max(jnp.sum((y[:, None] - y[None, :]) ** 2, axis=-1)))
        for y in (x, skip * x + made.field(0.0, mu)(mu.tokens))
    )
    return jnp.log(last / first / jnp.tanh(norm(at["K"].T @ at["Q"]) * first**2 / 4))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    shapes = {"z": (3, 2), "Q": (2, 2), "K": (2, 2), "w": (3,)}
    return dict(
        zip(shapes, map(jr.normal, jr.split(key, 4), shapes.values()), strict=True)
    )


def _layer(p: Parameters, name: str, at: Cloud, skip: float) -> Array:
    """Tokens after a layer of the library; Sinkhorn's value is divided by ε there."""
    scale = float(p.epsilon) if name == "sinkhorn" else 1.0
    moved = att.variants((name,), p, at)[name]
    return skip * at.x + scale * np.asarray(moved)


def _drawn(case: Case, name: str) -> tuple[Parameters, Cloud]:
    """Six weighted tokens in space, and generic scores; the value is the identity."""
    rng = case.rng(name)
    return att.generic(rng, 2, 3)._replace(V=np.eye(3)), att.cloud(rng, 6, 3)


def _brute_force(case: Case, skip: float) -> Checks:
    """The largest ratios over clouds, by all pairs of rows."""
    ratios = []
    for i in range(case.pick(20, 200)):
        for name in NORMALISED:
            p, at = _drawn(case, f"cloud {i}")
            (P,) = np.asarray(att.matrices(p.attention(name), at))
            delta = max(np.sum(np.abs(a - b)) / 2 for a in P for b in P)
            D, after = diameter(at.x), diameter(_layer(p, name, at, skip))
            ratios.append([after / (delta * D), delta / _bound(p, D)])
    over, share = np.max(ratios, axis=0)
    slack = Slack(tolerance=1e-9, why=ROUNDED)
    yield bounded("diameters over δD", over, "<=", 1.0, **slack)
    yield bounded("δ over tanh(|A|D²/4ε)", share, "<=", 1.0, **slack)


def _bound(p: Parameters, D: float) -> float:
    return float(np.tanh(np.linalg.norm(p.A, 2) * D**2 / (4 * p.epsilon)))


def _three_layers(case: Case, skip: float) -> Check:
    p, at = _drawn(case, "layers")
    x = at.x
    for _ in range(3):
        at = at._replace(x=_layer(p, "softmax", at, skip))
        x = skip * x + att.softmax(p, at._replace(x=x), x)
    return close("three layers of softmax", at.x, x)


@statement(
    "new:token-collapse-skip",
    source="This project",
    claim=r"With the skip tokens do not collapse so: under $x_i' = V\sum_jP_{ij}x_j$ "
    r"their diameter is at least $D(0)/\sqrt{1 + 2ctD(0)^2}$, $c = |A||V|/4\epsilon$, "
    r"and $t^{-1/2}$ is reached.",
    hypotheses=r"P as for token-collapse",
    remark=r"$D' \geq -|V|\tanh(|A|D^2/4\epsilon)D \geq -cD^3$, as for layers.",
    control=(
        "a drift towards zero is added",
        {"drift": -1.0},
        ("least D(t) over its bound",),
    ),
)
def skipping(case: Case, *, drift: float = 0.0) -> Checks:
    r"""Flows of softmax by the library: eight clouds, and two tokens on a line.

    Clouds of six weighted tokens in d = 3 with values of either sign, to t = 4: the
    least ratio to the bound over frames. The pair, with $V = -1$, to t = 10 000: its
    diameter as a power of time.
    """
    # `drift` times x is added to the velocity.
    ratios, ts = [], np.linspace(0, 4, 9)
    for i in range(case.pick(8, 32)):
        p, at = _drawn(case, f"flow {i}")
        V = case.rng(f"flow {i}: value").normal(size=(3, 3)) / 2
        p = p._replace(V=(-1) ** i * V)
        D = _diameters(p, at, ts, drift)
        c = np.linalg.norm(p.A, 2) * np.linalg.norm(p.V, 2) / (4 * p.epsilon)
        ratios.append(np.min(D / D[0] * np.sqrt(1 + 2 * c * ts * D[0] ** 2)))
    flown = Slack(tolerance=1e-7, why=FLOWN)
    yield bounded("least D(t) over its bound", np.min(ratios), ">=", 1.0, **flown)
    one, late = np.eye(1), 10.0 ** np.arange(1, 4.5, 0.5)
    p, pair = Parameters(one, one, -one, np.asarray(0.7)), np.array([[-0.7], [0.7]])
    D = _diameters(p, att.bare(pair), np.concatenate([[0.0], late]), drift)[1:]
    label = "order in t of a pair's diameter"
    yield order(label, late, D, -0.5, names=("t", "D"))


@eqx.filter_jit
def _flown(p: Parameters, mu: Points, ts: JaxArray, drift: JaxArray) -> JaxArray:
    still = Drift(drift * jnp.eye(mu.tokens.x.shape[1]))
    return flow(Sum(p.attention("softmax"), still), mu, ts).coordinates


def _diameters(p: Parameters, at: Cloud, ts: Array, drift: float) -> Array:
    """Of the library's flow, at each time."""
    x = _flown(p, att.points(at), jnp.asarray(ts), jnp.asarray(drift))
    return np.array([diameter(each) for each in np.asarray(x)])
