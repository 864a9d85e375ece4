"""Masked softmax attention on the line, by the library and in NumPy."""

from typing import NamedTuple

from meanfield._typing import PRNGKey
from meanfield.attention import Attention, Softmax
from meanfield.dynamics import AbstractDynamics, causal
from meanfield.flows import flow
from meanfield.measures import Points
from meanfield.scores import Dot, Masked
from meanfield.theorems._arrays import Array, JaxArray, columns, eqx, jax, jnp, np
from meanfield.theorems._protocols import ball_atoms
from meanfield.theorems.reference import formulas as ref
from meanfield.tokens import Tokens

EPSILON = 1.3
FRAMES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


class Line(NamedTuple):
    """Tokens on a line, sorted by position, and scalar attention parameters."""

    Q: float | Array  # a scalar; `K` and `V` are scalars too
    K: float | Array
    V: float | Array
    x: Array  # the tokens
    w: Array  # weights of the tokens
    s: Array  # positions of the tokens


def _masked_attention(line: Line) -> AbstractDynamics:
    Q, K, V = (jnp.asarray(number)[None, None] for number in line[:3])
    return Attention(Masked(Dot(Q, K, EPSILON), causal), Softmax(), V)


def _points(line: Line) -> Points:
    return Points.weighted(line.x[:, None], line.w, position=line.s)


@eqx.filter_jit
def _carry_lines(lines: Line) -> JaxArray:
    run = lambda line: flow(_masked_attention(line), _points(line), FRAMES).coordinates
    return eqx.filter_vmap(run)(lines)[..., 0]


@eqx.filter_jit
def _velocities(lines: Line, x: JaxArray, s: JaxArray) -> JaxArray:
    def line_velocity(line: Line, state: JaxArray, place: JaxArray) -> JaxArray:
        query = Tokens(state[None, None], place[None])
        return _masked_attention(line).field(0.0, _points(line))(query)[0, 0]

    return eqx.filter_vmap(line_velocity)(lines, x, s)


def _stack_lines(lines: list[Line]) -> Line:
    """Stacks lines, padded to one length with tokens of weight zero."""
    n = max(len(line.x) for line in lines)
    fill = lambda part, value: np.append(part, np.full(n - len(part), value))
    padded_lines = [
        line._replace(x=fill(line.x, 2.0), w=fill(line.w, 0.0), s=fill(line.s, 0.0))
        for line in lines
    ]
    return Line(*columns(padded_lines))


def carry_lines(lines: list[Line]) -> list[Array]:
    """The library's tokens at the frames, `(frames, n)` for each line."""
    paths = np.asarray(_carry_lines(_stack_lines(lines)))
    counts = [len(line.x) for line in lines]
    return [path[:, :n] for path, n in zip(paths, counts, strict=True)]


def velocities(lines: list[Line], x: float, s: float) -> Array:
    """The library's field of each line, at one state and one position."""
    count = len(lines)
    states, place = jnp.full(count, x), jnp.full(count, s)
    return np.asarray(_velocities(_stack_lines(lines), states, place))


def reference(line: Line) -> Array:
    """Tokens at t = 1; DOP853 integrates sums over the pairs that are not masked."""
    mask = line.s[None, :] <= line.s[:, None]

    def rate(_: float, x: Array) -> Array:
        scores = line.Q * line.K * np.outer(x, x) / EPSILON
        weights = np.where(mask, np.exp(scores), 0) * line.w[None, :]
        return line.V * (weights @ x) / weights.sum(axis=1)

    return ref.integrate(rate, line.x, np.array([0.0, 1.0]))[-1]


def distance(x: Array, y: Array, w: Array, p: float) -> float:
    r"""Distance $d_p = (\sum_iw_i|x_i-y_i|^p)^{1/p}$ for one token per position."""
    return float(w @ np.abs(x - y) ** p) ** (1 / p)


def start(key: PRNGKey) -> dict[str, JaxArray]:
    """Random parameters, atoms, displacements and weights in the plane."""
    keys = jax.random.split(key, 4)
    scale = jnp.exp(jax.random.normal(keys[0], ()) - 1)
    return {
        "QKV": scale * jax.random.normal(keys[1], (3, 2, 2)),
        "z": jax.random.normal(keys[2], (5, 2)),
        "moves": jax.random.normal(keys[3], (4, 2)),
        "logits": jax.random.normal(keys[0], (4,)),
    }


def log_pointwise(parameters: dict[str, JaxArray]) -> JaxArray:
    r"""Largest $\log\frac{|d\Gamma(s,x)|\theta([0,s])^{1/2}}{c(x,R)\,d}$ over s.

    The displacements of four atoms at distinct positions are infinitesimal; R = 1.2 and
    |x| ≤ R.
    """
    Q, K, V = parameters["QKV"]
    R, atoms = 1.2, ball_atoms(parameters["z"], 1.2)
    s = jnp.arange(1, 5) / 4
    mu = Points(Tokens(atoms[:4], s), jax.nn.log_softmax(parameters["logits"]))
    attention = Attention(Masked(Dot(Q, K, EPSILON), causal), Softmax(), V)
    queries = Tokens(jnp.repeat(atoms[4:], 4, axis=0), s)
    field = lambda x: attention.field(0.0, mu.replace_coordinates(x))(queries)
    _, variation = jax.jvp(field, (atoms[:4],), (parameters["moves"],))
    d = jnp.sqrt(mu.weights @ jnp.sum(parameters["moves"] ** 2, axis=1))
    a = jnp.linalg.norm(K.T @ Q, 2) * R * jnp.linalg.norm(atoms[4]) / EPSILON
    c = jnp.linalg.norm(V, 2) * (1 + 2 * a) * jnp.exp(2 * a)
    mass = jnp.sqrt(jnp.cumsum(mu.weights))
    return jnp.log(jnp.max(jnp.linalg.norm(variation, axis=1) * mass) / (c * d))
