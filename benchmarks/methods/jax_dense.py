"""Softmax velocities in JAX without `meanfield`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._problems import (
    cost_facts,
    directions,
    gradient_facts,
    tokens,
    velocity_facts,
)
from benchmarks._trial import Job, Trial

HIGHEST = jax.lax.Precision.HIGHEST


def dense(trial: Trial) -> Job:
    """Softmax velocity in JAX from the dense matrix of scores."""
    return _velocity(trial, _dense_velocity)


def dot_product_attention(trial: Trial) -> Job:
    """Softmax velocity by `jax.nn.dot_product_attention`."""
    return _velocity(trial, _library)


def cost(trial: Trial) -> Job:
    """A scalar function of the velocities of all tokens, without its gradient."""
    run = _cost_run(trial, _cost)
    return Job(run, lambda scalar: cost_facts(trial, scalar))


def gradient(trial: Trial) -> Job:
    """The scalar of `cost`, and its gradient with respect to the tokens."""
    run = _cost_run(trial, jax.value_and_grad(_cost))
    return Job(run, lambda result: gradient_facts(trial, result[1]))


def _dense_velocity(queries: jax.Array, x: jax.Array, epsilon: float) -> jax.Array:
    scores = jnp.matmul(queries, x.T, precision=HIGHEST) / epsilon
    return jnp.matmul(jax.nn.softmax(scores, axis=1), x, precision=HIGHEST)


def _library(queries: jax.Array, x: jax.Array, epsilon: float) -> jax.Array:
    one_head = lambda a: a[None, :, None, :]
    keys = one_head(x)
    with jax.default_matmul_precision("highest"):
        out = jax.nn.dot_product_attention(
            one_head(queries), keys, keys, scale=1 / epsilon
        )
    return out[0, :, 0]


def _velocity(trial: Trial, function: Callable[..., jax.Array]) -> Job:
    x, epsilon = jnp.asarray(tokens(trial)), trial.settings["epsilon"]
    queries = x[: trial.n_queries]
    velocity = jax.jit(lambda queries, x: function(queries, x, epsilon))
    run = lambda: _to_numpy(velocity(queries, x))
    return Job(run, lambda velocities: velocity_facts(trial, velocities))


def _cost(x: jax.Array, u: jax.Array, epsilon: float) -> jax.Array:
    return jnp.sum(u * _dense_velocity(x, x, epsilon))


def _cost_run(trial: Trial, function: Callable[..., Any]) -> Callable[[], Any]:
    x, u = jnp.asarray(tokens(trial)), jnp.asarray(directions(trial))
    function_in_jit = jax.jit(lambda x, u: function(x, u, trial.settings["epsilon"]))
    return lambda: _to_numpy(function_in_jit(x, u))


def _to_numpy(result: Any) -> Any:
    return jax.tree.map(np.asarray, jax.block_until_ready(result))
