"""Attention whose parameters move in time, in the library and in SciPy's equations.

A moving parameter is linear in time in each of two layers, and jumps between them. Its
array has two axes before those of the matrix: the layers, and both ends of each.
"""

from collections.abc import Callable
from itertools import pairwise

from meanfield.attention import attentions
from meanfield.dynamics import Interpolated, Layers
from meanfield.flows import flow
from meanfield.theorems._arrays import Array, JaxArray, Rng, columns, eqx, jax, jnp, np
from meanfield.theorems._prelude import Checks
from meanfield.theorems._protocols import Slack, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.reference import formulas as ref

from .ensembles import Moments, Paths, ensemble, gaussian, members

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


def value_at(path: Array, t: float, layer: int) -> Array:
    """Value at time `t`, in one layer, of a parameter that moves."""
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


@eqx.filter_jit
def _moving_paths(name: str, stack: Member) -> tuple:
    def member_path(m: Member) -> tuple:
        dynamics = moving_attention(name, m.Q, m.K, m.V, m.epsilon)
        run = flow(dynamics, gaussian(m), TIMES)
        mean, factor = run.coordinates
        return mean, factor, run.code, run.t_star, run.t_star_error, run.n_accepted

    return jax.vmap(member_path)(stack)


def integrate_layers(
    rate_in: Callable[[int], Callable[[float, Array], Array]], start: Array
) -> Array:
    """States at `TIMES`, where `rate_in(layer)` is the right-hand side in a layer.

    SciPy's DOP853 integrates it from frame to frame, so that no step crosses a jump.
    """
    states = [start]
    for left, right in pairwise(TIMES):
        layer = int(np.searchsorted(EDGES, (left + right) / 2)) - 1
        frame = np.array([left, right])
        states.append(ref.integrate(rate_in(layer), states[-1], frame)[-1])
    return np.stack(states)


def moving_flows(name: str, stack: Member, rate: Rate) -> Checks:
    """Compares the library's flows of a moving stack with the rates of its moments.

    SciPy's DOP853 integrates the rates.
    """
    mean, Y, *rest = map(np.asarray, _moving_paths(name, stack))
    run = Paths(mean, Y @ np.swapaxes(Y, -1, -2), *rest)
    means, covariances = _solve_moving_moments(rate, stack)
    why = "steps of 4e-10, amplified tenfold"
    slack = Slack(tolerance=run.tolerance(10), why=why)
    yield gap("α(t), moving parameters", run.mean, means, **slack)
    yield gap("Σ(t), moving parameters", run.covariance, covariances, **slack)


def _solve_moving_moments(rate: Rate, stack: Member) -> tuple[Array, ...]:
    """Means and covariances of a moving stack at `TIMES`, from the rates of moments."""

    def solve_member(m: Member) -> Moments:
        def rate_in(layer: int) -> Callable[[float, Array], Array]:
            def derivative(t: float, y: Array) -> Array:
                Q, K, V = (value_at(path, t, layer) for path in (m.Q, m.K, m.V))
                current = m._replace(Q=Q, K=K, V=V)
                return np.column_stack(rate(current, (y[:, 0], y[:, 1:])))

            return derivative

        start = np.column_stack([m.mean, m.covariance])
        y = integrate_layers(rate_in, start)
        return y[:, :, 0], y[:, :, 1:]

    return columns(map(solve_member, members(stack)))
