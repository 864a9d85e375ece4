"""Velocities, their gradients and Sinkhorn potentials by `meanfield`."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meanfield
from benchmarks import _marginals
from benchmarks._problems import (
    cost_facts,
    directions,
    gradient_facts,
    tokens,
    velocity_facts,
)
from benchmarks._trial import Job, Trial
from meanfield.attention import Attention, Scalings, scalings
from meanfield.flows import compile_function, plan_sums
from meanfield.measures import AbstractReduction, Blocked, Chebyshev, Dense, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens


def blocked(trial: Trial) -> Job:
    """Velocity by the library's default reduction, which sums exactly, in blocks."""
    return _velocity(trial, Blocked())


def in_jit(trial: Trial) -> Job:
    """Velocity compiled by `jax.jit` without compiler options."""
    return _velocity(trial, Blocked(), jax.jit)


def in_jit_with_options(trial: Trial) -> Job:
    """Velocity compiled by `jax.jit` with the documented compiler options."""
    options = meanfield.compiler_options()
    return _velocity(
        trial, Blocked(), functools.partial(jax.jit, compiler_options=options)
    )


def dense(trial: Trial) -> Job:
    """Velocity from the dense matrix of scores."""
    return _velocity(trial, Dense())


def chebyshev(trial: Trial) -> Job:
    """Velocity by Chebyshev interpolation; the first run chooses the nodes."""
    attention = attention_of(trial)
    reduction = Chebyshev(trial.settings["tolerance"])
    mu = Points.uniform(tokens(trial), reduction=reduction)

    @functools.cache
    def plan() -> tuple[Points, float]:
        start = time.perf_counter()
        planned = plan_sums(attention, mu, 0.0)
        assert isinstance(planned, Points)
        return planned, time.perf_counter() - start

    def facts(velocities: np.ndarray) -> dict[str, Any]:
        planned, seconds = plan()
        reduction = planned.reduction
        counts = reduction.counts if isinstance(reduction, Chebyshev) else None
        nodes = "×".join(map(str, counts)) if counts else "none, exact sums"
        error = velocity_facts(trial, velocities)["error"]
        return {"error": error, "nodes": nodes, "planning_seconds": seconds}

    velocity = compile_function(
        lambda attention, mu: attention.field(0.0, mu)(mu.tokens)
    )
    return Job(lambda: _to_numpy(velocity(attention, plan()[0])), facts)


def attention_of(trial: Trial) -> Attention:
    """Softmax attention with Q = K = V = I and the bandwidth of the trial."""
    identity = np.eye(trial.d, dtype=trial.dtype)
    return meanfield.attentions["softmax"](
        identity, identity, identity, epsilon=trial.settings["epsilon"]
    )


def _velocity(
    trial: Trial,
    reduction: AbstractReduction,
    compiler: Callable[..., Any] = compile_function,
) -> Job:
    attention = attention_of(trial)
    mu = Points.uniform(tokens(trial), reduction=reduction)
    queries = Tokens(mu.tokens.x[: trial.n_queries])
    velocity = compiler(
        lambda x, at: attention.field(0.0, mu.replace_coordinates(x))(Tokens(at))
    )
    run = lambda: _to_numpy(velocity(mu.tokens.x, queries.x))
    return Job(run, lambda velocities: velocity_facts(trial, velocities))


def cost(trial: Trial) -> Job:
    """A scalar function of the velocities of all tokens, without its gradient."""
    return Job(
        _cost_run(trial, compile_function(_cost)),
        lambda scalar: cost_facts(trial, scalar),
    )


def gradient(trial: Trial) -> Job:
    """The scalar of `cost`, and its gradient with respect to the tokens."""
    run = _cost_run(trial, compile_function(jax.value_and_grad(_cost)))
    return Job(run, lambda result: gradient_facts(trial, result[1]))


def _cost(x: jax.Array, u: jax.Array, attention: Attention) -> jax.Array:
    mu = Points.uniform(x, reduction=Blocked())
    return jnp.sum(u * attention.field(0.0, mu)(mu.tokens))


def _cost_run(trial: Trial, cost_function: Callable[..., Any]) -> Callable[[], Any]:
    arrays = (jnp.asarray(tokens(trial)), jnp.asarray(directions(trial)))
    attention = attention_of(trial)
    return lambda: _to_numpy(cost_function(*arrays, attention))


def sinkhorn(trial: Trial) -> Job:
    """Sinkhorn potentials, iterated until the marginals meet a tolerance."""
    identity, epsilon = np.eye(trial.d), trial.settings["epsilon"]
    score, mu = Dot(identity, identity, epsilon), Points.uniform(tokens(trial))
    scalings_of = compile_function(
        lambda score, mu: scalings(score, mu, tolerance=trial.settings["tolerance"])
    )

    def facts(solution: Scalings) -> dict[str, Any]:
        half = np.sum(np.asarray(mu.tokens.x) ** 2, axis=1) / (2 * epsilon)
        log_n = np.log(trial.n)
        u = np.asarray(solution.rows(mu.tokens)) + half - log_n
        v = np.asarray(solution.columns(mu.tokens)) + half - log_n
        return _marginals.facts(trial, u, v)

    return Job(lambda: jax.block_until_ready(scalings_of(score, mu)), facts)


def _to_numpy(result: Any) -> Any:
    return jax.tree.map(np.asarray, jax.block_until_ready(result))
