"""Velocities by `meanfield` with sums in cells, which are chosen as in flows."""

import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import KDTree

from benchmarks._problems import relative_gap, tokens
from benchmarks._trial import Job, Trial
from meanfield.attention import Attention
from meanfield.fields import Convergence
from meanfield.flows import compile_function, motion_of, plan_sums
from meanfield.measures import AbstractReduction, Blocked, Cells, Points
from meanfield.scores import Masked, causal
from meanfield.tokens import Tokens

from .ours import attention_of

MAX_FULL = 20_000  # up to this number of tokens, all are compared
# Otherwise the `N_EXTREME` farthest, the `N_EXTREME` most isolated and some random
# tokens are compared, at most `N_COMPARED` in total.
N_COMPARED, N_EXTREME = 4096, 1024


def planned_velocity(trial: Trial) -> Job:
    """Velocity compiled in the same way as in flows of the library."""
    return _job(trial, attention_of(trial), compile_function)


def velocity_in_jit(trial: Trial) -> Job:
    """Velocity compiled by plain `jax.jit`."""
    return _job(trial, attention_of(trial), jax.jit)


def causal_velocity(trial: Trial) -> Job:
    """Velocity under a causal mask."""
    attention = attention_of(trial)
    score = Masked(attention.score, causal)
    return _job(
        trial, eqx.tree_at(lambda a: a.score, attention, score), compile_function
    )


def _job(trial: Trial, attention: Attention, compiler: Callable[..., Any]) -> Job:
    x = tokens(trial)
    order = jnp.linspace(0.0, 1.0, trial.n)
    uniform = jnp.full(trial.n, -jnp.log(trial.n))
    reduction = Cells(trial.settings["tolerance"])
    mu = Points(Tokens(jnp.asarray(x), order), uniform, reduction)

    @functools.cache
    def plan() -> tuple[Points, float]:
        start = time.perf_counter()
        planned = plan_sums(attention, mu, 0.0)
        return planned, time.perf_counter() - start

    def velocities(x: jax.Array) -> jax.Array:
        mu = plan()[0].replace_coordinates(x)
        return attention.field(0.0, mu)(mu.tokens)

    def facts(values: np.ndarray) -> dict[str, Any]:
        planned, seconds = plan()
        convergence = _sum_convergence(attention, planned)
        indices = _compared_tokens(x)
        queries = Tokens(jnp.asarray(x[indices]), order[indices])
        exact = np.asarray(compile_function(_exact)(attention, mu, queries))
        return {
            "error": relative_gap(values[indices], exact),
            "bound": None if convergence is None else float(convergence.residual),
            "cells": _describe_layout(planned.reduction),
            "planning_seconds": seconds,
        }

    velocity = compiler(velocities)
    plan()
    return Job(lambda: np.asarray(jax.block_until_ready(velocity(mu.tokens.x))), facts)


def _sum_convergence(attention: Attention, mu: Points) -> Convergence | None:
    freeze = functools.partial(attention.field, 0.0)
    return motion_of(mu).sum_convergence(freeze, mu, freeze(mu))


def _exact(attention: Attention, mu: Points, queries: Tokens) -> jax.Array:
    pairs = Points(mu.tokens, mu.log_weights, Blocked())
    return attention.field(0.0, pairs)(queries)


def _describe_layout(reduction: AbstractReduction) -> str:
    if not isinstance(reduction, Cells) or reduction.layout is None:
        return "none, exact sums"
    layout = reduction.layout
    return f"{'×'.join(map(str, layout.cells))}, {layout.nodes} nodes along each axis"


def _compared_tokens(x: np.ndarray) -> np.ndarray:
    """Indices of the tokens to compare: the farthest, the most isolated, and others."""
    if len(x) <= MAX_FULL:
        return np.arange(len(x))
    far = np.argsort(-np.sum(x**2, axis=1))[:N_EXTREME]
    distances = KDTree(x).query(x, 2, workers=-1)[0][:, 1]
    isolated = np.argsort(-distances)[:N_EXTREME]
    rng, n_others = np.random.default_rng(2), N_COMPARED - 2 * N_EXTREME
    others = rng.choice(len(x), n_others, replace=False)
    return np.unique(np.concatenate([far, isolated, others]))
