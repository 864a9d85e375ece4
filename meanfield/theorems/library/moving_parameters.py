"""Attention whose parameters move in time, in the library and in SciPy's equations.

A moving parameter is linear in time in each of two layers, and jumps between them. Its
array has two axes before those of the matrix: the layers, and both ends of each.
"""

from collections.abc import Callable

from meanfield.attention import attentions
from meanfield.dynamics import Interpolated, Layers
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jnp, np
from meanfield.theorems._prelude import Checks
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.reference import formulas as ref

from .ensembles import Moments, ensemble, members, paths

EDGES = np.array([0.0, 0.25, 0.5])  # the layers lie between these times
TIMES = np.linspace(0, 0.5, 5)  # frames, among which are all edges
PATH = (2, 2)  # numbers of layers, and of ends of a layer

Rate = Callable[[Member, Moments], Moments]
Number = Array | JaxArray


def moving_ensemble(rng: Rng, shape: tuple[int, int, int], count: int) -> Member:
    """Random members whose Q, K and V move; `shape` is as in `ensemble`."""
    stack = ensemble(rng, shape, count * PATH[0] * PATH[1])
    fold = lambda M: M.reshape(count, *PATH, *M.shape[1:])
    first = Member(*(part[:count] for part in stack))
    return first._replace(Q=fold(stack.Q), K=fold(stack.K), V=fold(stack.V))


def value_at(path: Array, t: float, middle: float) -> Array:
    """Value at time `t` of a moving parameter, in the layer that contains `middle`."""
    layer = int(np.searchsorted(EDGES, middle)) - 1
    start, end = EDGES[layer : layer + 2]
    share = (t - start) / (end - start)
    return (1 - share) * path[layer, 0] + share * path[layer, 1]


def moving_attention(
    name: str, Q: Number, K: Number, V: Number, epsilon: Number | float = 1.0
) -> Layers:
    """The library's attention called `name`, with moving parameters."""
    make = lambda *ends: attentions[name](*ends, epsilon=epsilon)
    join = lambda times, *ends: Interpolated(times, eqx.filter_vmap(make)(*ends))
    times = jnp.asarray(np.stack([EDGES[:-1], EDGES[1:]], axis=1))
    return Layers(EDGES, eqx.filter_vmap(join)(times, Q, K, V))


def _moving_member(name: str, m: Member) -> Layers:
    return moving_attention(name, m.Q, m.K, m.V, m.epsilon)


def moving_flows(name: str, stack: Member, rate: Rate) -> Checks:
    """Compares the library's flows of a moving stack with the rates of its moments.

    SciPy's DOP853 integrates the rates.
    """
    run = paths(name, stack, TIMES, _moving_member)
    means, covariances = _solve_moving_moments(rate, stack)
    slack = Slack(tolerance=run.tolerance(10), why="steps of 4e-10, amplified tenfold")
    yield gap("α(t), moving parameters", run.mean, means, **slack)
    yield gap("Σ(t), moving parameters", run.covariance, covariances, **slack)


def _solve_moving_moments(rate: Rate, stack: Member) -> tuple[Array, ...]:
    """Means and covariances of a moving stack at `TIMES`, from the rates of moments."""

    def solve_member(m: Member) -> Moments:
        def derivative(middle: float, t: float, y: Array) -> Array:
            Q, K, V = (value_at(path, t, middle) for path in (m.Q, m.K, m.V))
            return np.column_stack(rate(m._replace(Q=Q, K=K, V=V), (y[:, 0], y[:, 1:])))

        start = np.column_stack([m.mean, m.covariance])
        y = ref.integrate_pieces(derivative, start, TIMES)
        return y[:, :, 0], y[:, :, 1:]

    return columns(map(solve_member, members(stack)))
