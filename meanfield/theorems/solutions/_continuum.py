"""Clouds in the plane, and the continuum that they approach, under five attentions."""

import functools

from scipy.special import betaincinv, roots_jacobi

from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Unary, eqx, jnp, np
from meanfield.theorems.library.bounds import constants
from meanfield.theorems.library.particles import KINDS
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.alternation import nth_state, scalings
from meanfield.theorems.reference.energies import bilinear, distance

SIDES = np.array([3, 4, 6, 8])  # numbers of tokens along each side of a square cloud
CELLS = 24  # number of cells of the continuum along each axis
TIME, STEPS, NODES = 0.4, 4, 10
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
# The arrays Q, K and V contain the matrices of two heads.
Q = np.stack([0.3 * np.eye(2) + 0.1 * TURN, np.diag([0.3, -0.3])])
K = np.stack([np.diag([0.4, 0.3]), 0.3 * np.eye(2)])
V = np.stack([0.9 * np.eye(2) + 0.2 * TURN, 0.3 * np.eye(2)])
HALF_STEPS = 61  # number of Sinkhorn half-steps; each divides the error by ten


def cells(shares: Array) -> Array:
    r"""Quantiles of the density $\rho \propto (\frac14 - x^2)^2$."""
    return betaincinv(3, 3, shares) - 0.5


def cloud(n: int, offset: float, cut: Unary = cells) -> Array:
    """One token in each of n² cells of equal mass, at quantile `offset` of its cell."""
    line = cut((np.arange(n) + offset) / n)
    return np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)


def carry_clouds(cut: Unary, offset: float) -> dict[str, list[tuple[Array, Array]]]:
    """Clouds at time zero and at `TIME`, moved by the library's field of each kind."""
    clouds = [cloud(int(n), offset, cut) for n in SIDES]
    n_max = max(map(len, clouds))
    x, w = np.full((len(clouds), n_max, 2), 3.0), np.zeros((len(clouds), n_max))
    for i, tokens in enumerate(clouds):  # the padding keeps weight zero
        x[i, : len(tokens)], w[i, : len(tokens)] = tokens, 1 / len(tokens)
    rate = lambda _, y: np.asarray(_velocities(jnp.asarray(y), jnp.asarray(w)))
    end = ref.rk4(rate, np.stack([x] * len(KINDS)), TIME, STEPS)
    return {
        name: [(c, y[: len(c)]) for c, y in zip(clouds, ends, strict=True)]
        for name, ends in zip(KINDS, end, strict=True)
    }


@eqx.filter_jit
def _velocities(x: JaxArray, w: JaxArray) -> JaxArray:
    """Velocities of clouds `(kinds, clouds, n, 2)`, each under its own attention.

    The bandwidth is one.
    """

    def kind_velocities(name: str, clouds: JaxArray) -> JaxArray:
        def cloud_velocity(y: JaxArray, p: JaxArray) -> JaxArray:
            mu = Points.weighted(y, p)
            return KINDS[name].constant(Q, K, V).field(0.0, mu)(mu.tokens)

        return eqx.filter_vmap(cloud_velocity)(clouds, w)

    return jnp.stack([kind_velocities(*pair) for pair in zip(KINDS, x, strict=True)])


@functools.cache
def continuum(name: str) -> tuple[Array, Array]:
    """Samples of the continuum at time zero and at `TIME`.

    NumPy carries the samples by the field of Gauss–Jacobi nodes.
    """
    line, shares = roots_jacobi(NODES, 2, 2)
    nodes = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2) / 2
    w = np.outer(shares, shares).ravel() / np.sum(shares) ** 2
    start = cloud(CELLS, 0.5)
    return start, carry_tokens(name, np.concatenate([nodes, start]), w)[len(w) :]


def carry_tokens(name: str, x: Array, w: Array) -> Array:
    """Moves the tokens `x` to time `TIME` in NumPy.

    The first `len(w)` tokens are the weighted atoms that generate the field.
    """
    n = KINDS[name].heads

    def rate(_: float, tokens: Array) -> Array:
        velocities = [
            _velocity(name, (q, k, v), tokens, tokens[: len(w)], w)
            for q, k, v in zip(Q[:n], K[:n], V[:n], strict=True)
        ]
        return np.sum(velocities, axis=0)

    return ref.rk4(rate, x, TIME, STEPS)


def _velocity(name: str, head: tuple, x: Array, y: Array, w: Array) -> Array:
    """Velocity of the tokens `x` under one head, with weighted keys `y`, by NumPy."""
    q, k, v = head
    if name == "L2":
        return ref.normalised_velocity(distance(q, k, 1.0)(x, y), w, v, y)
    scores = bilinear(k.T @ q)
    if name == "sigmoid":
        return ref.pointwise_velocity(ref.sigmoid, scores(x, y), w, v, y)
    if name != "Sinkhorn":
        return ref.normalised_velocity(scores(x, y), w, v, y)
    _, columns = nth_state(scalings(np.exp(scores(y, y)), w, w), HALF_STEPS + 1)
    return ref.normalised_velocity(scores(x, y), w * columns, v, y)


def growth_bound(name: str) -> float:
    """Growth bound $C(t, R_0)$ of the theorem, from norms that NumPy computes."""
    n = KINDS[name].heads
    size = lambda M: np.linalg.norm(M[:n], 2, axis=(1, 2))
    v, a = size(V), size(np.swapaxes(K, 1, 2) @ Q)
    R = np.sqrt(0.5) * np.exp(TIME * np.sum(v))
    first, second = constants(name, v, a * R**2, size(Q) * R, size(K) * R)
    return float(np.exp(TIME * np.sum(first + second)))
