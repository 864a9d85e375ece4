"""Clouds in the plane and the continuum they approach, under five attentions."""

import functools

from scipy.special import betaincinv, roots_jacobi

from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics, Heads, stacked
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Unary, eqx, jnp, np
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.alternation import after, scalings
from meanfield.theorems.reference.energies import bilinear, distance

from ._particles import KINDS, constants

SIDES = np.array([3, 4, 6, 8])  # of clouds of 9 to 64 tokens
CELLS = 24  # of the continuum, along each axis
TIME, STEPS, NODES = 0.4, 4, 10
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
Q = np.stack([0.3 * np.eye(2) + 0.1 * TURN, np.diag([0.3, -0.3])])  # of two heads
K = np.stack([np.diag([0.4, 0.3]), 0.3 * np.eye(2)])
V = np.stack([0.9 * np.eye(2) + 0.2 * TURN, 0.3 * np.eye(2)])
HALF_STEPS = 61  # of Sinkhorn's alternation: each leaves a tenth of the error


def cells(shares: Array) -> Array:
    r"""Quantiles of $\rho \propto (\frac14 - x^2)^2$."""
    return betaincinv(3, 3, shares) - 0.5


def cloud(n: int, at: float, cut: Unary = cells) -> Array:
    """A token in each of n² cells of equal mass, at a share of the cell's."""
    line = cut((np.arange(n) + at) / n)
    return np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)


def carried(cut: Unary, at: float) -> dict[str, list[tuple[Array, Array]]]:
    """By attention, each cloud at time zero and at `TIME`, by the library's fields."""
    clouds = [cloud(int(n), at, cut) for n in SIDES]
    most = max(map(len, clouds))
    x, w = np.full((len(clouds), most, 2), 3.0), np.zeros((len(clouds), most))
    for i, each in enumerate(clouds):  # what is added has no weight
        x[i, : len(each)], w[i, : len(each)] = each, 1 / len(each)
    rate = lambda _, y: np.asarray(_velocities(jnp.asarray(y), jnp.asarray(w)))
    end = ref.rk4(rate, np.stack([x] * len(KINDS)), TIME, STEPS)
    return {
        name: [(c, y[: len(c)]) for c, y in zip(clouds, ends, strict=True)]
        for name, ends in zip(KINDS, end, strict=True)
    }


def _dynamics(name: str) -> AbstractDynamics:
    """The library's, at ε = 1."""
    make = attentions[KINDS[name].attention]
    if KINDS[name].heads == 1:
        return make(Q[0], K[0], V[0])
    return Heads(stacked([make(*head) for head in zip(Q, K, V, strict=True)]))


@eqx.filter_jit
def _velocities(x: JaxArray, w: JaxArray) -> JaxArray:
    """Of clouds `(kinds, clouds, n, 2)` under the attention of their kind."""

    def of(name: str, clouds: JaxArray) -> JaxArray:
        def one(y: JaxArray, p: JaxArray) -> JaxArray:
            mu = Points.weighted(y, p)
            return _dynamics(name).field(0.0, mu)(mu.tokens)

        return eqx.filter_vmap(one)(clouds, w)

    return jnp.stack([of(name, each) for name, each in zip(KINDS, x, strict=True)])


@functools.cache
def continuum(name: str) -> tuple[Array, Array]:
    """Cells of the continuum at time zero and at `TIME`, which nodes carry in NumPy."""
    line, shares = roots_jacobi(NODES, 2, 2)
    nodes = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2) / 2
    w = np.outer(shares, shares).ravel() / np.sum(shares) ** 2
    start = cloud(CELLS, 0.5)
    return start, followed(name, np.concatenate([nodes, start]), w)[len(w) :]


def followed(name: str, x: Array, w: Array) -> Array:
    """Where NumPy carries tokens by `TIME`, of which the first have these weights."""
    n = KINDS[name].heads

    def rate(_: float, at: Array) -> Array:
        each = [
            _velocity(name, (q, k, v), at, at[: len(w)], w)
            for q, k, v in zip(Q[:n], K[:n], V[:n], strict=True)
        ]
        return np.sum(each, axis=0)

    return ref.rk4(rate, x, TIME, STEPS)


def _velocity(name: str, head: tuple, x: Array, y: Array, w: Array) -> Array:
    """One head's of the tokens `x` that look at weighted nodes `y`."""
    q, k, v = head
    if name == "L2":
        return ref.normalised_velocity(distance(q, k, 1.0)(x, y), w, v, y)
    scores = bilinear(k.T @ q)
    if name == "sigmoid":
        return ref.pointwise_velocity(ref.sigmoid, scores(x, y), w, v, y)
    if name != "Sinkhorn":
        return ref.normalised_velocity(scores(x, y), w, v, y)
    _, columns = after(scalings(np.exp(scores(y, y)), w, w), HALF_STEPS + 1)
    return ref.normalised_velocity(scores(x, y), w * columns, v, y)


def growth_bound(name: str) -> float:
    """$C(t, R_0)$ of the theorem, by norms in NumPy."""
    n = KINDS[name].heads
    size = lambda M: np.linalg.norm(M[:n], 2, axis=(1, 2))
    v, a = size(V), size(np.swapaxes(K, 1, 2) @ Q)
    R = np.sqrt(0.5) * np.exp(TIME * np.sum(v))
    law = "softmax" if name == "multi-head" else name
    first, second = constants(law, v, a * R**2, size(Q) * R, size(K) * R)
    return float(np.exp(TIME * np.sum(first + second)))
