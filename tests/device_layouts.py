"""Comparison of eight devices of one processor with one device, as JSON.

`python tests/device_layouts.py PART ...` computes the named parts, in a process of its
own.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from meanfield import Attention, Dense, Isotropic, Points, attentions, flow
from meanfield.devices import spread
from meanfield.dynamics import AbstractDynamics, Heads, stack_trees
from meanfield.measures import AbstractReduction
from meanfield.scores import Masked, causal

N, D = 64, 3
RNG = np.random.default_rng(0)
Q, K, V = (np.eye(D) + 0.3 * RNG.normal(size=(D, D)) for _ in range(3))
EVERY_RUN = "softmax", "linear"
X = RNG.normal(size=(N, D))


def velocity(law: AbstractDynamics, mu: Points) -> jax.Array:
    """The velocity of all tokens."""
    return eqx.filter_jit(lambda law, mu: law.field(0.0, mu)(mu.tokens))(law, mu)


def relative_deviation(ours: Any, reference: Any) -> float:
    """The largest difference, divided by the largest value."""
    ours, reference = np.asarray(ours), np.asarray(reference)
    return float(np.abs(ours - reference).max() / np.abs(reference).max())


def velocity_deviation(name: str, n: int) -> float:
    """Deviation of the velocities of `n` tokens between eight devices and one."""
    law = attentions[name](Q, K, -V)
    mu = Points.weighted(X[:n], (np.arange(n) + 1) % 5)
    return relative_deviation(velocity(law, spread(mu, 8)), velocity(law, mu))


def velocity_deviations() -> dict[str, float]:
    """Deviations for numbers of tokens that divide among devices, and that do not."""
    return {
        f"{name}, {n}": velocity_deviation(name, n)
        for name in EVERY_RUN
        for n in (N, N - 3)
    }


def all_velocity_deviations() -> dict[str, float]:
    """Deviations for every attention that ignores the order of tokens."""
    laws = {name: make(Q, K, -V) for name, make in attentions.items()}
    names = [name for name, law in laws.items() if not law.coupling.reads_order]
    deviations = {name: velocity_deviation(name, N) for name in names}
    return {**deviations, "uneven": velocity_deviation("sinkhorn", N - 3)}


def other_deviations() -> dict[str, float]:
    """Deviations for masks, heads, derivatives, and a sum over all pairs in NumPy."""
    mu = Points.uniform(X, position=np.arange(1, N + 1) / N)
    softmax = attentions["softmax"](Q, K, -V)
    heads = Heads(stack_trees([softmax, attentions["softmax"](K, Q, V)]))
    masked = Attention(Masked(softmax.score, causal), softmax.coupling, -V)
    S = np.exp(X @ Q.T @ K @ X.T)
    means = S @ X / S.sum(axis=1, keepdims=True)

    def scalar(x: jax.Array, how: AbstractReduction) -> jax.Array:
        mu = Points.uniform(x, reduction=how)
        return jnp.sum(softmax.field(0.0, mu)(mu.tokens) ** 3)

    ring = spread(mu, 8).reduction
    slopes = [
        jax.jit(jax.grad(scalar), static_argnums=1)(X, h) for h in (ring, Dense())
    ]
    push = lambda how: jax.jvp(lambda x: scalar(x, how), (X,), (X[::-1],))[1]
    return {
        "numpy": relative_deviation(velocity(softmax, spread(mu, 8)), -means @ V.T),
        "heads": relative_deviation(
            velocity(heads, spread(mu, 4)), velocity(heads, mu)
        ),
        "mask": relative_deviation(
            velocity(masked, spread(mu, 8)), velocity(masked, mu)
        ),
        "gradient": relative_deviation(*slopes),
        "forward mode": relative_deviation(push(ring), push(Dense())),
    }


def flow_deviation(name: str, counts: Sequence[int], **noise: Any) -> dict[str, float]:
    """Deviation of the final states between several devices and one."""
    law, mu = attentions[name](Q, K, -V), Points.uniform(X)
    ends = {
        count: flow(law, spread(mu, count), [0.0, 1.0], **noise).last
        for count in counts
    }
    on_one_device = flow(law, mu, [0.0, 1.0], **noise).last
    return {
        f"{name}, {count}": relative_deviation(end, on_one_device)
        for count, end in ends.items()
    }


def flow_deviations() -> dict[str, float]:
    """Deviations for softmax attention without noise."""
    return flow_deviation("softmax", [8])


def noisy_flow_deviations() -> dict[str, float]:
    """Deviations for softmax attention with noise, whose paths must not change."""
    return flow_deviation("softmax", [8], noise=Isotropic(0.1), key=jax.random.key(0))


def more_flow_deviations() -> dict[str, float]:
    """Deviations with two devices, and for attentions with other solvers or sums."""
    return {
        **flow_deviation("softmax", [2]),
        **flow_deviation("sinkhorn", [2, 8]),
        **flow_deviation("sigmoid", [2, 8]),
    }


def blow_ups() -> dict[str, Any]:
    """The same blow-up on one device and on eight, with its error bar."""
    law, mu = attentions["linear"](Q, Q, np.eye(D)), Points.uniform(X)
    ends = [flow(law, start, [0.0, 50.0]) for start in (mu, spread(mu, 8))]
    return {
        "status": [str(end.status) for end in ends],
        "t_star": [float(end.t_star) for end in ends],
        "bar": [float(end.t_star_error) for end in ends],
    }


def shards() -> dict[str, Any]:
    """What each device stores, allocates and communicates."""
    law, actual = attentions["softmax"](Q, K, -V), {}
    velocities = jax.jit(lambda mu: law.field(0.0, mu)(mu.tokens))
    states = [velocities(spread(Points.uniform(X), count)) for count in (1, 2, 8)]
    actual["rows"] = [v.addressable_shards[0].data.shape[0] for v in states]
    zeros = jnp.zeros((2**20, D))
    programs = [
        velocities.lower(spread(Points.uniform(zeros), k)).compile() for k in (1, 2, 8)
    ]
    analyses: list[Any] = [program.memory_analysis() for program in programs]
    actual["held"] = [a.argument_size_in_bytes for a in analyses]
    actual["besides"] = [a.temp_size_in_bytes for a in analyses]
    texts = [program.as_text() or "" for program in programs]
    actual["in a ring"] = ["collective-permute" in text for text in texts]
    actual["gathered"] = ["all-gather" in text for text in texts]
    runs = [flow(law, spread(Points.uniform(X), 8), [0.0, 1.0]).last for _ in range(2)]
    actual["same bytes"] = (
        np.asarray(runs[0]).tobytes() == np.asarray(runs[1]).tobytes()
    )
    return actual


if __name__ == "__main__":
    sys.stdout.write(json.dumps({part: globals()[part]() for part in sys.argv[1:]}))
