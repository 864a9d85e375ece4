"""Masked softmax attention, by the library and in NumPy."""

from typing import NamedTuple

from meanfield._typing import PRNGKey
from meanfield.attention import Attention, Softmax
from meanfield.dynamics import AbstractDynamics, causal
from meanfield.flows import flow
from meanfield.measures import Points
from meanfield.scores import Dot, Masked
from meanfield.theorems._arrays import Array, JaxArray, columns, eqx, jax, jnp, np
from meanfield.theorems._ascents import ball_atoms
from meanfield.theorems.reference import formulas as ref
from meanfield.tokens import Tokens

EPSILON = 1.3
FRAMES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


class Sequence(NamedTuple):
    """Tokens sorted by position, and constant attention parameters."""

    Q: Array  # shape `(d, d)`, as for `K` and `V`
    K: Array
    V: Array
    x: Array  # the tokens, `(n, d)`
    w: Array  # weights of the tokens
    s: Array  # positions of the tokens


def line_sequence(
    matrices: tuple[float, float, float], x: Array, w: Array, s: Array
) -> Sequence:
    """Tokens on a line; `matrices` are the numbers Q, K and V."""
    Q, K, V = (np.array([[number]], float) for number in matrices)
    return Sequence(Q, K, V, x[:, None], w, s)


def _masked_attention(sequence: Sequence) -> AbstractDynamics:
    Q, K, V = (jnp.asarray(matrix) for matrix in sequence[:3])
    return Attention(Masked(Dot(Q, K, EPSILON), causal), Softmax(), V)


def _points(sequence: Sequence) -> Points:
    return Points.weighted(sequence.x, sequence.w, position=sequence.s)


@eqx.filter_jit
def _carry(sequences: Sequence) -> JaxArray:
    run = lambda sequence: (
        flow(_masked_attention(sequence), _points(sequence), FRAMES).coordinates
    )
    return eqx.filter_vmap(run)(sequences)


@eqx.filter_jit
def _velocities(sequences: Sequence, x: JaxArray, s: JaxArray) -> JaxArray:
    def velocity(sequence: Sequence, state: JaxArray, place: JaxArray) -> JaxArray:
        query = Tokens(state[None, None], place[None])
        return _masked_attention(sequence).field(0.0, _points(sequence))(query)[0, 0]

    return eqx.filter_vmap(velocity)(sequences, x, s)


def _stack(sequences: list[Sequence]) -> Sequence:
    """Stacks sequences, padded to one length with tokens of weight zero."""
    n = max(len(sequence.x) for sequence in sequences)

    def pad(part: Array, value: float) -> Array:
        widths = [(0, n - len(part))] + [(0, 0)] * (part.ndim - 1)
        return np.pad(part, widths, constant_values=value)

    sequences = [
        sequence._replace(
            x=pad(sequence.x, 2.0), w=pad(sequence.w, 0.0), s=pad(sequence.s, 0.0)
        )
        for sequence in sequences
    ]
    return Sequence(*columns(sequences))


def carry(sequences: list[Sequence]) -> list[Array]:
    """The library's tokens at the frames, `(frames, n, d)` for each sequence."""
    paths = np.asarray(_carry(_stack(sequences)))
    counts = [len(sequence.x) for sequence in sequences]
    return [path[:, :n] for path, n in zip(paths, counts, strict=True)]


def velocities(sequences: list[Sequence], x: float, s: float) -> Array:
    """The library's field on a line, of each sequence, at one state and position."""
    count = len(sequences)
    states, place = jnp.full(count, x), jnp.full(count, s)
    return np.asarray(_velocities(_stack(sequences), states, place))


def reference(sequence: Sequence) -> Array:
    """Tokens at t = 1; DOP853 integrates sums over the pairs that are not masked."""
    mask = sequence.s[None, :] <= sequence.s[:, None]

    def rate(_: float, x: Array) -> Array:
        scores = ref.dot_scores(sequence.Q, sequence.K, x, x) / EPSILON
        weights = np.where(mask, np.exp(scores), 0) * sequence.w[None, :]
        return weights @ x @ sequence.V.T / weights.sum(axis=1, keepdims=True)

    return ref.integrate(rate, sequence.x, np.array([0.0, 1.0]))[-1]


def distance(x: Array, y: Array, w: Array, p: float) -> float:
    r"""Distance $d_p = (\sum_iw_i|x_i-y_i|^p)^{1/p}$ for one token per position."""
    return float(w @ np.linalg.norm(x - y, axis=1) ** p) ** (1 / p)


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
