"""Short flows of neighbouring clouds through the library's fields, for ascents.

The displacements are infinitesimal, so that each atom is matched with itself and $W_1$
is the mean displacement. The flow takes one step of the classical Runge–Kutta method,
over the time in which the bound allows a growth by $e$ to the power `GROWTH`. The error
of this step, relative to the growth, is `GROWTH`⁴/120, that is about 1e-9.
"""

from collections.abc import Callable, Mapping
from functools import partial

from meanfield._typing import PRNGKey
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, jax, jnp, np
from meanfield.theorems._ascents import ball_measure
from meanfield.theorems.estimates.attacks import FAR, norm
from meanfield.theorems.library.bounds import constants
from meanfield.theorems.library.particles import KINDS

GROWTH = 0.02
# With a fixed number of half-steps, Sinkhorn attention compiles four times faster than
# with a loop to convergence. If ‖A‖ ≤ `LARGEST`, the two results differ by at most
# tanh(‖A‖)^40, that is about 1e-11. Larger ‖A‖ are excluded.
OPTIONS, LARGEST = {"Sinkhorn": {"iterations": 41}}, 0.6
TABLEAU = np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]])
LIGHT = 1e-9  # the weight of the light atom
# With ‖A‖ = 0 the attention of softmax is the mean, and translations reach the bound:
# an unrestricted ascent ends there. At ‖A‖ = `LEAST` the bound of softmax is 2.3‖V‖,
# and translations reach 44 % of it.
LEAST = 0.2

Parameters = Mapping[str, JaxArray]


def start(key: PRNGKey) -> dict[str, JaxArray]:
    """Random parameters: four atoms with weights and displacements, and two heads.

    Weights and displacements differ by orders of magnitude, since the bound is nearly
    reached when light atoms move most.
    """
    keys = jax.random.split(key, 5)
    Q, K, V = jax.random.normal(keys[0], (3, 2, 2, 2))
    z, moves = jax.random.normal(keys[1], (2, 4, 2))
    scale = jnp.exp(jax.random.normal(keys[2], ()) - 1.5)
    V = jnp.eye(2) + V / 2  # the identity makes most clouds expand
    moves = jnp.exp(2 * jax.random.normal(keys[4], (4, 1))) * moves
    measure = {"z": z, "logits": 3 * jax.random.normal(keys[3], (4,)), "away": moves}
    return {"Q": scale * Q, "K": scale * K, "V": V} | measure


def light_atom(a: float) -> dict[str, Array]:
    r"""Parameters of a moving light atom at $u$ and heavy atoms at $-u$.

    `log_ratio` raises $\|A\|$ to `a`. Bound (iii) of Lemma B.2 is an equality in this
    case: each heavy atom moves by the light atom's weight times
    $\|V\|(1 + 2a)e^{2a}$.
    """
    u, identities = np.array([1.0, 0.0]), np.stack([np.eye(2)] * 2)
    rest, root = (1 - LIGHT) / 3, np.sqrt(a - LEAST) * identities
    places, moves = np.stack([u, -u, -u, -u]), np.stack([u, 0 * u, 0 * u, 0 * u])
    measure = {"z": FAR * places, "logits": np.log([LIGHT, rest, rest, rest])}
    return {"Q": -root, "K": root, "V": identities, "away": moves} | measure


def log_ratio(
    parameters: Parameters, kind_index: JaxArray, first: JaxArray
) -> JaxArray:
    r"""Log-ratio of the growth rate of $W_1$ to the bound $C_1 + C_2R(T)^2$.

    The growth rate is $\frac1T\log W_1(T)/W_1(0)$. `first` multiplies $C_1$, and
    `kind_index` is the place of the attention in `KINDS`. In every head $\|A\|$ is
    raised by `LEAST`.
    """
    sharper = _raise_scores(parameters)
    branches = [partial(_log_share, name, sharper) for name in KINDS]
    return jax.lax.switch(kind_index, branches, first)


def _raise_scores(parameters: Parameters) -> Parameters:
    r"""Scales the `Q` and `K` of each head, so that $\|A\|$ grows by `LEAST`."""
    Q, K = (parameters[part] for part in "QK")
    sizes = jax.vmap(norm)(jnp.swapaxes(K, 1, 2) @ Q)
    root = jnp.sqrt(1 + LEAST / sizes)[:, None, None]
    return {**parameters, "Q": root * Q, "K": root * K}


def _log_share(name: str, parameters: Parameters, first: JaxArray) -> JaxArray:
    mu, unit = ball_measure(parameters["z"], parameters["logits"], 1.0), jnp.ones(())
    T = GROWTH / _rate(name, parameters, unit, unit)
    flow_map = lambda x: _runge_kutta_step(_velocity(name, mu, parameters), x, T)
    _, displacement = jax.jvp(flow_map, (mu.tokens.x,), (parameters["away"],))
    growth = jnp.log(
        _mean_length(mu, displacement) / _mean_length(mu, parameters["away"])
    )
    v, a, _, _ = _norms(name, parameters)
    sharp = (name == "Sinkhorn") & (a[0] > LARGEST)
    R = jnp.exp(T * jnp.sum(v))
    share = jnp.log(growth) - jnp.log(T * _rate(name, parameters, R, first))
    return jnp.where(sharp, -jnp.inf, share)


def _norms(name: str, parameters: Parameters) -> tuple[JaxArray, ...]:
    """Operator norms of V, A, Q and K, for each head."""
    n = KINDS[name].heads
    Q, K, V = (parameters[part][:n] for part in "QKV")
    norms = jax.vmap(norm)
    return norms(V), norms(jnp.swapaxes(K, 1, 2) @ Q), norms(Q), norms(K)


def _rate(name: str, parameters: Parameters, R: JaxArray, first: JaxArray) -> JaxArray:
    """The rate $C_1 + C_2R^2$, summed over heads, at ε = 1.

    `first` multiplies $C_1$.
    """
    v, a, q, k = _norms(name, parameters)
    C1, C2 = constants(name, v, a * R**2, q * R, k * R)
    return jnp.sum(first * C1 + C2)


def _mean_length(mu: Points, moves: JaxArray) -> JaxArray:
    return mu.weights @ jnp.sqrt(jnp.sum(moves**2, axis=1) + 1e-40)


def _velocity(
    name: str, mu: Points, parameters: Parameters
) -> Callable[[JaxArray], JaxArray]:
    """The library's velocities of the atoms."""
    matrices = (parameters[part] for part in "QKV")
    dynamics = KINDS[name].constant(*matrices, **OPTIONS.get(name, {}))

    def velocity(x: JaxArray) -> JaxArray:
        nu = mu.replace_coordinates(x)
        return dynamics.field(0.0, nu)(nu.tokens)

    return velocity


def _runge_kutta_step(
    velocity: Callable[[JaxArray], JaxArray], x: JaxArray, T: JaxArray
) -> JaxArray:
    """End point of one step of length `T` of the classical Runge–Kutta method."""

    def stage(carry: tuple[JaxArray, JaxArray], row: JaxArray) -> tuple:
        stage_velocity, total = carry
        stage_velocity = velocity(x + row[0] * T * stage_velocity)
        return (stage_velocity, total + row[1] * stage_velocity), None

    nothing = jnp.zeros_like(x)
    (_, total), _ = jax.lax.scan(stage, (nothing, nothing), jnp.asarray(TABLEAU))
    return x + T * total
