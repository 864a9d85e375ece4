"""Work on one accelerator, timed without transfers to or from the host."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meanfield
from benchmarks._problems import (
    directions,
    gradient_facts,
    pair_costs,
    relative_gap,
    sampled,
    tokens,
    velocity_facts,
)
from benchmarks._trial import Job, Trial
from meanfield.flows import compile_function
from meanfield.measures import Blocked, Keys, Points
from meanfield.measures.reductions import kernels
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from . import covariances
from .ours import attention_of

HIGHEST = jax.lax.Precision.HIGHEST


def velocity(trial: Trial) -> Job:
    """Softmax velocity by kernels, or in blocks of `block` tokens by XLA."""
    field_of = compile_function(functools.partial(_velocity, attention_of(trial)))
    x, reduction = jnp.asarray(tokens(trial)), Blocked(trial.settings.get("block"))
    run = lambda: jax.block_until_ready(field_of(x, reduction))
    sums = {"has_kernels": reduction.has_kernels}
    return Job(run, lambda v: velocity_facts(trial, np.asarray(v)) | sums)


def gradient(trial: Trial) -> Job:
    """A scalar function of softmax velocities, and its gradient."""
    u, attention = jnp.asarray(directions(trial)), attention_of(trial)
    cost = lambda x: jnp.sum(u * _velocity(attention, x, Blocked()))
    value_and_grad = compile_function(jax.value_and_grad(cost))
    x = jnp.asarray(tokens(trial))
    run = lambda: jax.block_until_ready(value_and_grad(x))
    return Job(run, lambda result: gradient_facts(trial, np.asarray(result[1])))


def tile(trial: Trial) -> Job:
    """The sums of a softmax velocity by one kernel with a tile of the trial's shape."""
    x = jnp.asarray(tokens(trial)).T
    zeros, ones = jnp.zeros_like(x[:1]), jnp.ones_like(x[:1])
    scale = kernels.LOG2E / trial.settings["epsilon"]
    shape = trial.settings["tile"]
    method = kernels.Method(
        is_interpreted=jax.default_backend() == "cpu",
        tile=None if shape is None else kernels.Tile(*shape),
    )
    sums = jax.jit(functools.partial(kernels.linked_sums, method))
    values = kernels.Terms(jnp.concatenate([x, ones]))
    sides = kernels.KernelSide(scale * x, zeros), kernels.KernelSide(x, zeros), values
    run = lambda: jax.block_until_ready(sums(*sides))
    return Job(
        run, lambda rows: velocity_facts(trial, np.asarray(rows[:-1] / rows[-1:]).T)
    )


def clouds(trial: Trial) -> Job:
    """Velocities of many small clouds, mapped over the library's own."""
    attention = attention_of(trial)
    return _clouds(trial, lambda x: _velocity(attention, x, Blocked()))


def dense_clouds(trial: Trial) -> Job:
    """Velocities of many small clouds, by `vmap` of dense scores in JAX."""

    def field(x: jax.Array) -> jax.Array:
        scores = jnp.matmul(x, x.T, precision=HIGHEST) / trial.settings["epsilon"]
        return jnp.matmul(jax.nn.softmax(scores, axis=1), x, precision=HIGHEST)

    return _clouds(trial, field)


def sinkhorn(trial: Trial) -> Job:
    """A number of half-steps for Sinkhorn potentials of the score `x·y/ε`."""
    identity = jnp.eye(trial.d, dtype=trial.dtype)
    score = Dot(identity, identity, trial.settings["epsilon"])
    cloud = Tokens(jnp.asarray(tokens(trial)))
    no_values = jnp.zeros((trial.n, 0), trial.dtype)

    def half_step(_: object, g: jax.Array) -> jax.Array:
        return -Blocked().log_mean(score, cloud, Keys(cloud, g, no_values))[1]

    potentials = jax.jit(
        lambda g: jax.lax.fori_loop(0, trial.settings["half_steps"], half_step, g)
    )
    start = jnp.full(trial.n, -np.log(trial.n), trial.dtype)
    run = lambda: jax.block_until_ready(potentials(start))
    return Job(run, lambda g: _potential_facts(trial, np.asarray(g, np.float64)))


def gaussians(trial: Trial) -> Job:
    """An ensemble of Gaussians until they blow up, on the device of the trial."""
    job = covariances.to_blow_up(trial)
    return job._replace(run=lambda: _on(trial, job.run))


def flow(trial: Trial) -> Job:
    """A flow of tokens with adaptive steps, on the device of the trial."""
    attention, x = attention_of(trial), tokens(trial)
    ends = lambda: meanfield.flow(attention, Points.uniform(x), [0.0, 1.0]).last
    run = lambda: _on(trial, ends)
    return Job(run, lambda ends: {"largest": float(np.abs(np.asarray(ends)).max())})


def _velocity(attention: Any, x: jax.Array, reduction: Blocked) -> jax.Array:
    mu = Points.uniform(x, reduction=reduction)
    return attention.field(0.0, mu)(mu.tokens)


def _clouds(trial: Trial, field: Callable[[jax.Array], jax.Array]) -> Job:
    shape = trial.settings["clouds"], trial.n, trial.d
    x = jnp.asarray(np.random.default_rng(0).standard_normal(shape), trial.dtype)
    fields = jax.jit(jax.vmap(field))

    def facts(v: jax.Array) -> dict[str, Any]:
        first = np.asarray(x[0], np.float64)
        weights = np.exp(first @ first.T / trial.settings["epsilon"])
        exact = weights @ first / weights.sum(axis=1, keepdims=True)
        costs = {k: len(x) * cost for k, cost in pair_costs(trial).items()}
        return {"error": relative_gap(np.asarray(v[0], np.float64), exact), **costs}

    return Job(lambda: jax.block_until_ready(fields(x)), facts)


def _potential_facts(trial: Trial, g: np.ndarray) -> dict[str, Any]:
    """Largest difference of the marginals from one, at some of the tokens."""
    x, at = tokens(trial).astype(np.float64), sampled(trial.n)
    scores = x[at] @ x.T / trial.settings["epsilon"]
    marginals = np.exp(g[at]) * np.sum(np.exp(scores + g[None]), axis=1)
    pairs = trial.settings["half_steps"] * trial.n**2
    costs = {"products": pairs * (2 * trial.d + 2), "exponentials": pairs}
    return {"marginal_error": float(np.abs(marginals - 1).max()), **costs}


def _on(trial: Trial, run: Callable[[], Any]) -> Any:
    is_host = trial.settings["where"] == "host"
    with jax.default_device(jax.devices("cpu" if is_host else None)[0]):
        return jax.block_until_ready(run())
