r"""Short flows of neighbouring clouds through the library's fields, for ascents.

Atoms that move infinitesimally are matched with themselves, so that $W_1$ is the mean
of how far they are moved. A step of the classical Runge–Kutta method over the time in
which the bound allows `GROWTH` e-folds is off by `GROWTH`⁴/120, 1e-9 of what grows.
"""

from collections.abc import Callable, Mapping
from functools import partial

from meanfield._typing import PRNGKey
from meanfield.attention import Attention, Sinkhorn, attentions
from meanfield.dynamics import AbstractDynamics, Heads
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._protocols import attacked
from meanfield.theorems.estimates.attacks import FAR, norm

from ._particles import KINDS, constants

GROWTH = 0.02
# Half-steps of Sinkhorn compile in a quarter of the time of its limit, from which these
# are off by tanh(‖A‖)^40, 1e-11: larger ‖A‖ are no candidates.
HALF_STEPS, LARGEST = 41, 0.6
TABLEAU = np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]])
LIGHT = 1e-9  # the share of an atom that all others outweigh

At = Mapping[str, JaxArray]


def start(key: PRNGKey) -> dict[str, JaxArray]:
    """Four atoms in the unit ball, their weights and moves, and two heads."""
    keys = jax.random.split(key, 4)
    Q, K, V = jax.random.normal(keys[0], (3, 2, 2, 2))
    z, away = jax.random.normal(keys[1], (2, 4, 2))
    scale = jnp.exp(jax.random.normal(keys[2], ()) - 1.5)
    V = jnp.eye(2) + V / 2  # which makes most clouds expand
    measure = {"z": z, "logits": jax.random.normal(keys[3], (4,)), "away": away}
    return {"Q": scale * Q, "K": scale * K, "V": V} | measure


def light(a: float) -> dict[str, Array]:
    r"""A light atom at $u$ that moves and pulls the others, at $-u$; $\|A\| = a$.

    They see it as in the case of equality of Lemma B.2 (iii): each is moved by its
    share times $\|V\|(1 + 2a)e^{2a}$.
    """
    u, both = np.array([1.0, 0.0]), np.stack([np.eye(2)] * 2)
    rest, root = (1 - LIGHT) / 3, np.sqrt(a) * both
    places, moves = np.stack([u, -u, -u, -u]), np.stack([u, 0 * u, 0 * u, 0 * u])
    measure = {"z": FAR * places, "logits": np.log([LIGHT, rest, rest, rest])}
    return {"Q": -root, "K": root, "V": both, "away": moves} | measure


def log_ratio(at: At, which: JaxArray, first: JaxArray) -> JaxArray:
    r"""$\log\frac{\log W_1(T)/W_1(0)}{T(C_1 + C_2R(T)^2)}$, with `first` times $C_1$.

    `which` is the place of the attention in `KINDS`.
    """
    branches = [partial(_log_share, name, at) for name in KINDS]
    return jax.lax.switch(which, branches, first)


def _log_share(name: str, at: At, first: JaxArray) -> JaxArray:
    mu, one = attacked(at["z"], at["logits"], 1.0), jnp.ones(())
    T = GROWTH / _rate(name, at, one, one)
    flown = lambda x: _flown(_velocity(name, mu, at), x, T)
    _, moved = jax.jvp(flown, (mu.tokens.x,), (at["away"],))
    growth = jnp.log(_mean_length(mu, moved) / _mean_length(mu, at["away"]))
    v, a, _, _ = _norms(name, at)
    sharp = (name == "Sinkhorn") & (a[0] > LARGEST)
    R = jnp.exp(T * jnp.sum(v))
    share = jnp.log(growth) - jnp.log(T * _rate(name, at, R, first))
    return jnp.where(sharp, -jnp.inf, share)


def _norms(name: str, at: At) -> tuple[JaxArray, ...]:
    """Of V, A, Q and K, for each head."""
    n = KINDS[name].heads
    Q, K, V = (at[part][:n] for part in "QKV")
    each = jax.vmap(norm)
    return each(V), each(jnp.swapaxes(K, 1, 2) @ Q), each(Q), each(K)


def _rate(name: str, at: At, R: JaxArray, first: JaxArray) -> JaxArray:
    """$C_1 + C_2R^2$, summed over heads, at ε = 1."""
    v, a, q, k = _norms(name, at)
    law = "softmax" if name == "multi-head" else name
    C1, C2 = constants(law, v, a * R**2, q * R, k * R)
    return jnp.sum(first * C1 + C2)


def _mean_length(mu: Points, moves: JaxArray) -> JaxArray:
    return mu.weights @ jnp.sqrt(jnp.sum(moves**2, axis=1) + 1e-40)


def _dynamics(name: str, at: At) -> AbstractDynamics:
    kind = KINDS[name]
    make = lambda Q, K, V: attentions[kind.attention](Q, K, V)
    if kind.heads > 1:
        return Heads(eqx.filter_vmap(make)(at["Q"], at["K"], at["V"]))
    made = make(at["Q"][0], at["K"][0], at["V"][0])
    if name == "Sinkhorn":
        return Attention(made.score, Sinkhorn(HALF_STEPS), made.value)
    return made


def _velocity(name: str, mu: Points, at: At) -> Callable[[JaxArray], JaxArray]:
    """The library's velocities of the atoms."""

    def velocity(x: JaxArray) -> JaxArray:
        field = _dynamics(name, at).field(0.0, mu.at(x))
        return field(mu.at(x).tokens)

    return velocity


def _flown(
    velocity: Callable[[JaxArray], JaxArray], x: JaxArray, T: JaxArray
) -> JaxArray:
    """Where a step of the classical Runge–Kutta method of length `T` ends."""

    def stage(carry: tuple[JaxArray, JaxArray], row: JaxArray) -> tuple:
        slope, total = carry
        slope = velocity(x + row[0] * T * slope)
        return (slope, total + row[1] * slope), None

    nothing = jnp.zeros_like(x)
    (_, total), _ = jax.lax.scan(stage, (nothing, nothing), jnp.asarray(TABLEAU))
    return x + T * total
