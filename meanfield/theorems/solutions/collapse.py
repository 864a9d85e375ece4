"""Collapse of tokens under layers of attention, without and with skip connections."""

import jax.random as jr

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.dynamics import Drift, Sum
from meanfield.flows import flow
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._ascents import ascend, ball_measure
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import Slack, close, compare, order
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.ensembles import norm

VARIANTS = ("softmax", "sinkhorn")
SIZES = np.array([0.05, 0.025, 0.0125, 0.00625])  # factors by which clouds are scaled
WHY_ROUNDING = "rounding of sums over six tokens; Sinkhorn's marginals to 4e-11"
WHY_FLOW = "the local errors of 4e-10 of all steps, each relative to the distance moved"


def diameter(x: Array) -> float:
    """Largest distance between two tokens."""
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
    r"$\tanh\frac\omega4$ apart. Hard sliced attention depends on ranks only: "
    r"there is no cubic rate, and one slice only permutes tokens.",
    control=(
        "a skip is added to each layer",
        {"skip": 1.0},
        ("D after…", "two tokens…", "diameters over δD", "order of D after…"),
    ),
)
def collapse(case: Case, *, skip: float = 0.0) -> Checks:
    r"""Compares diameters of tokens before and after the library's layers.

    For three tokens in the plane under softmax, gradient ascent maximises the ratio of
    the diameter after a layer to the tanh bound. Two tokens on a line must reach this
    bound. For 20 clouds of six weighted tokens in d = 3, under softmax and Sinkhorn
    attention, diameters are compared with $\delta D$, and the maximum $\delta$ over all
    pairs of rows is compared with $\tanh(|A|D^2/4\epsilon)$. The diameter after a layer
    must scale as the cube of the diameter before it. Three layers of softmax are
    compared with NumPy layers.
    """
    # The control changes `skip`: a layer adds `skip` times the tokens.
    label = "D after over |V| tanh(|A|D²/4ε) D"
    yield ascend(case, label, _log_ratio, _start, args=(skip,))
    # Two tokens on a line must reach the bound.
    identity, cloud = np.eye(1), att.uniform_cloud(np.array([[-0.7], [0.7]]))
    p = Parameters(identity, identity, identity, np.asarray(0.7))
    D = diameter(cloud.x)
    D_after = diameter(_layer(p, "softmax", cloud, skip))
    yield close("two tokens on a line: the bound is reached", D_after, _bound(p, D) * D)
    yield from _brute_force(case, skip)
    # The order of the diameter after a layer is measured on smaller and smaller clouds.
    p, cloud = _draw_problem(case, "order")
    middle = cloud.share @ cloud.x
    for name in VARIANTS:
        clouds = [cloud._replace(x=middle + h * (cloud.x - middle)) for h in SIZES]
        D_before = [diameter(start.x) for start in clouds]
        D_after = [diameter(_layer(p, name, start, skip)) for start in clouds]
        label = f"order of D after in D, {name}"
        yield order(label, D_before, D_after, 3.0, names=("D", "D after"))
    yield _three_layers(case, skip)


def _log_ratio(parameters: dict[str, JaxArray], skip: JaxArray) -> JaxArray:
    """Log-ratio of the diameter after a softmax layer to its bound."""
    mu = ball_measure(parameters["z"], parameters["w"], 1.0)
    attention = attentions["softmax"](parameters["Q"], parameters["K"], jnp.eye(2))
    x = mu.tokens.x
    first, last = (
        jnp.sqrt(jnp.max(jnp.sum((y[:, None] - y[None, :]) ** 2, axis=-1)))
        for y in (x, skip * x + attention.field(0.0, mu)(mu.tokens))
    )
    A = parameters["K"].T @ parameters["Q"]
    return jnp.log(last / first / jnp.tanh(norm(A) * first**2 / 4))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    shapes = {"z": (3, 2), "Q": (2, 2), "K": (2, 2), "w": (3,)}
    draws = map(jr.normal, jr.split(key, 4), shapes.values())
    return dict(zip(shapes, draws, strict=True))


def _layer(p: Parameters, name: str, cloud: Cloud, skip: float) -> Array:
    """Tokens after one layer; Sinkhorn attention is multiplied by ε.

    The product undoes the library's division by ε.
    """
    scale = float(p.epsilon) if name == "sinkhorn" else 1.0
    velocity = att.variants((name,), p, cloud)[name]
    return skip * cloud.x + scale * np.asarray(velocity)


def _draw_problem(case: Case, name: str) -> tuple[Parameters, Cloud]:
    """Random parameters with V = I, and six weighted tokens in d = 3."""
    rng = case.rng(name)
    p = att.random_parameters(rng, 2, 3)._replace(V=np.eye(3))
    return p, att.random_cloud(rng, 6, 3)


def _brute_force(case: Case, skip: float) -> Checks:
    """Compares the largest ratios over random clouds with their bounds.

    The ratios use δ from all pairs of rows.
    """
    ratios = []
    for i in range(case.pick(20, 200)):
        for name in VARIANTS:
            p, cloud = _draw_problem(case, f"cloud {i}")
            (P,) = np.asarray(att.matrices(p.attention(name), cloud))
            delta = max(np.sum(np.abs(a - b)) / 2 for a in P for b in P)
            D, D_after = diameter(cloud.x), diameter(_layer(p, name, cloud, skip))
            ratios.append([D_after / (delta * D), delta / _bound(p, D)])
    largest_ratio, share = np.max(ratios, axis=0)
    slack = Slack(tolerance=1e-9, why=WHY_ROUNDING)
    yield compare("diameters over δD", largest_ratio, "<=", 1.0, **slack)
    yield compare("δ over tanh(|A|D²/4ε)", share, "<=", 1.0, **slack)


def _bound(p: Parameters, D: float) -> float:
    return float(np.tanh(np.linalg.norm(p.A, 2) * D**2 / (4 * p.epsilon)))


def _three_layers(case: Case, skip: float) -> Check:
    p, cloud = _draw_problem(case, "layers")
    x = cloud.x
    for _ in range(3):
        cloud = cloud._replace(x=_layer(p, "softmax", cloud, skip))
        x = skip * x + att.softmax(p, cloud._replace(x=x), x)
    return close("three layers of softmax", cloud.x, x)


@statement(
    "new:token-collapse-skip",
    source="This project",
    claim=r"With the skip, collapse is slow: under $x_i' = V\sum_jP_{ij}x_j$ "
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
def skip_connection(case: Case, *, drift: float = 0.0) -> Checks:
    """Compares diameters of tokens in the library's softmax flows with a lower bound.

    There are eight clouds of six weighted tokens in d = 3, with values of either sign.
    Up to t = 4, the smallest ratio of the diameter to the bound must be at least one.
    For two tokens on a line with $V = -1$, the distance must decay as $t^{-1/2}$ from t
    = 10 to t = 10 000.
    """
    # The control changes `drift`: the velocity gains the term `drift` times x.
    ratios, ts = [], np.linspace(0, 4, 9)
    for i in range(case.pick(8, 32)):
        p, cloud = _draw_problem(case, f"flow {i}")
        V = case.rng(f"flow {i}: value").normal(size=(3, 3)) / 2
        p = p._replace(V=(-1) ** i * V)
        D = _diameters(p, cloud, ts, drift)
        c = np.linalg.norm(p.A, 2) * np.linalg.norm(p.V, 2) / (4 * p.epsilon)
        ratios.append(np.min(D / D[0] * np.sqrt(1 + 2 * c * ts * D[0] ** 2)))
    slack = Slack(tolerance=1e-7, why=WHY_FLOW)
    yield compare("least D(t) over its bound", np.min(ratios), ">=", 1.0, **slack)
    identity, late = np.eye(1), 10.0 ** np.arange(1, 4.5, 0.5)
    p = Parameters(identity, identity, -identity, np.asarray(0.7))
    pair = np.array([[-0.7], [0.7]])
    D = _diameters(p, att.uniform_cloud(pair), np.concatenate([[0.0], late]), drift)[1:]
    yield order("order in t of a pair's diameter", late, D, -0.5, names=("t", "D"))


@eqx.filter_jit
def _flow_tokens(p: Parameters, mu: Points, ts: JaxArray, drift: JaxArray) -> JaxArray:
    drift_term = Drift(drift * jnp.eye(mu.tokens.x.shape[1]))
    return flow(Sum(p.attention("softmax"), drift_term), mu, ts).coordinates


def _diameters(p: Parameters, cloud: Cloud, ts: Array, drift: float) -> Array:
    """Diameters of the tokens at each time, in the library's flow."""
    x = _flow_tokens(p, att.points(cloud), jnp.asarray(ts), jnp.asarray(drift))
    return np.array([diameter(frame) for frame in np.asarray(x)])
