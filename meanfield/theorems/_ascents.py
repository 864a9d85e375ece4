"""Gradient ascents by Adam, which search for violations of inequalities."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from meanfield._typing import PRNGKey
from meanfield.measures import Points
from meanfield.tokens import Tokens

from ._case import Case
from ._check import Ascent, Check
from ._protocols import Number

# Numbers of random starts and of steps of a gradient ascent. Each constant is a pair:
# the number for a quick verification, then the number for a full one.
STARTS, STEPS = (12, 24), (150, 400)
MOST_STEPS = 1000
LEARNING_RATE = 0.05  # Adam's step size
DECAYS = 0.9, 0.999  # decay rates of the averages of gradients and of squared gradients
EPSILON = 1e-8  # prevents 0/0 in coordinates whose gradients are all zero
LARGEST_LOG = 700.0  # largest logarithm that is exponentiated; exp(710) overflows
Parameters = Mapping[str, Any]


def ascend(
    case: Case,
    label: str,
    log_ratio: Callable[..., Array],
    start: Callable[[PRNGKey], Any],
    *,
    args: tuple[Any, ...] = (),
    steps: int | None = None,
    bound: Number = 1.0,
) -> Check:
    """Check of the largest lhs / rhs that Adam finds from random starts.

    If the case has a witness with this label, the ratio is evaluated there instead.
    Calls with the same module-level functions share one compilation.

    Args:
        case: provides random draws and witnesses.
        label: label of the check and of its witness.
        log_ratio: maps parameters to log(lhs / rhs); non-finite values are skipped.
        start: maps a key to initial parameters, a mapping from names to arrays.
        args: further arguments of `log_ratio`, which are not varied.
        steps: number of steps, at most 1000; `None` means 150 steps, or 400 at full
            size.
        bound: claimed upper bound of the ratio.
    """
    if label in case.witnesses:
        best = case.witnesses[label]
        history = np.asarray([log_ratio_at(case, log_ratio, best, args=args)])
    else:
        count = steps or case.pick(*STEPS)
        starts = _draw_starts(case.key(label), start=start, starts=case.pick(*STARTS))
        values, best = _run_ascent(starts, _arrays(args), count, log_ratio=log_ratio)
        history = np.asarray(values)[:count]
    running = np.maximum.accumulate(history)
    evidence = Ascent(
        tuple(float(value) for value in running),
        {name: np.asarray(value).tolist() for name, value in best.items()},
    )
    why = "rounding of log(lhs / rhs): 1e-9 covers 1e6 operations of float64"
    top = float(np.exp(min(running[-1], LARGEST_LOG)))
    return Check(label, top, "<=", bound, 1e-9 * bound, why, evidence)


def log_ratio_at(
    case: Case,
    log_ratio: Callable[..., Array],
    parameters: Parameters,
    *,
    args: tuple[Any, ...] = (),
) -> float:
    """Value of log(lhs / rhs) at known parameters: a witness, or a case of equality.

    The value is read from the first step of the ascent, which is already compiled.
    """
    repeat = lambda x: np.stack([np.asarray(x, float)] * case.pick(*STARTS))
    starts = {name: repeat(x) for name, x in parameters.items()}
    values, _ = _run_ascent(starts, _arrays(args), 1, log_ratio=log_ratio)
    return float(values[0])


def _arrays(args: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(arg) for arg in args)


@partial(jax.jit, static_argnames=("start", "starts"))
def _draw_starts(
    key: PRNGKey, *, start: Callable[[PRNGKey], Any], starts: int
) -> dict[str, Array]:
    return dict(jax.vmap(start)(jax.random.split(key, starts)))


@partial(jax.jit, static_argnames="log_ratio")
def _run_ascent(
    starts: dict[str, Array],
    args: tuple[Array, ...],
    count: Array | int,
    *,
    log_ratio: Callable[..., Array],
) -> tuple[Array, dict[str, Array]]:
    """Largest log-ratio found up to each of `count` steps, and where it was found.

    The parameters of each start form one vector, which compiles faster than a tree.
    """
    x0 = jax.vmap(lambda start: ravel_pytree(start)[0])(starts)
    unravel = ravel_pytree(jax.tree.map(lambda stack: stack[0], starts))[1]
    objective = lambda vector: log_ratio(unravel(vector), *args)
    value_and_gradient = jax.vmap(jax.value_and_grad(objective))

    def step(i: Any, carry: tuple) -> tuple:
        x, state, best, where, history = carry
        value, gradient = value_and_gradient(x)
        usable = jnp.where(jnp.isfinite(value), value, -jnp.inf)
        where = jnp.where((usable > best)[:, None], x, where)
        best = jnp.maximum(best, usable)
        loss_gradient = jnp.where(jnp.isfinite(gradient), -gradient, 0)
        move, state = adam(loss_gradient, state, LEARNING_RATE)
        history = history.at[i].set(jnp.max(usable))
        return x + move, state, best, where, history

    nothing = jnp.full(len(x0), -jnp.inf)
    first = (x0, zero_moments(x0), nothing, x0, jnp.full(MOST_STEPS, -jnp.inf))
    _, _, best, where, history = jax.lax.fori_loop(0, count, step, first)
    return history, unravel(where[jnp.argmax(best)])


def ball_atoms(z: Float[Array, "n d"], radius: Float[Array, ""] | float) -> Array:
    """Maps unconstrained vectors `z` to atoms in the ball of radius `radius`."""
    size = jnp.sqrt(jnp.sum(z**2, axis=-1, keepdims=True) + 1e-30)
    return radius * jnp.tanh(size) * z / size


def ball_measure(
    z: Float[Array, "n d"], logits: Float[Array, " n"], radius: Float[Array, ""] | float
) -> Points:
    """Measure in a ball, from unconstrained parameters of atoms and weights."""
    return Points(Tokens(ball_atoms(z, radius)), jax.nn.log_softmax(logits))


class Moments(NamedTuple):
    """Running averages of the gradients and of their squares, and the step count."""

    first: Float[Array, "*shape"]
    second: Float[Array, "*shape"]
    n_steps: Int[Array, ""]


def zero_moments(x: Float[Array, "*shape"]) -> Moments:
    """Zero moments, from which Adam starts."""
    return Moments(jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros((), jnp.int32))


def adam(
    gradient: Float[Array, "*shape"], moments: Moments, learning_rate: float
) -> tuple[Float[Array, "*shape"], Moments]:
    """Adam's step for a gradient, as in `optax.adam`, and the updated moments."""
    b1, b2 = DECAYS
    first = (1 - b1) * gradient + b1 * moments.first
    second = (1 - b2) * gradient**2 + b2 * moments.second
    n_steps = moments.n_steps + 1
    size = jnp.sqrt(second / (1 - b2**n_steps)) + EPSILON
    step = -learning_rate * (first / (1 - b1**n_steps)) / size
    return step, Moments(first, second, n_steps)
