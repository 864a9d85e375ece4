"""Velocities in cells by `meanfield`, planned as a flow plans them."""

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
from meanfield.flows import compile_function, motion_of, plan_sums
from meanfield.measures import AbstractReduction, Blocked, Cells, Points
from meanfield.scores import Masked, causal
from meanfield.tokens import Tokens

from .ours import attention_of

ALL = 20_000  # largest number of tokens at which all errors are computed
LOOKS, EXTREME = 4096, 1024  # sampled tokens; those farthest out, and most isolated


def planned_velocity(trial: Trial) -> Job:
    """Velocity compiled as in the flows of the library."""
    return _job(trial, attention_of(trial), compile_function)


def velocity_in_jit(trial: Trial) -> Job:
    """Velocity compiled by plain `jax.jit`."""
    return _job(trial, attention_of(trial), jax.jit)


def causal_velocity(trial: Trial) -> Job:
    """Velocity under a causal mask."""
    attention = attention_of(trial)
    score = Masked(attention.score, causal)
    return _job(
        trial, eqx.tree_at(lambda of: of.score, attention, score), compile_function
    )


def _job(trial: Trial, attention: Attention, compiler: Callable[..., Any]) -> Job:
    x = tokens(trial)
    order = jnp.linspace(0.0, 1.0, trial.n)
    uniform = jnp.full(trial.n, -jnp.log(trial.n))
    how = Cells(trial.settings["tolerance"])
    mu = Points(Tokens(jnp.asarray(x), order), uniform, how)

    @functools.cache
    def plan() -> tuple[Points, float]:
        start = time.perf_counter()
        ready = plan_sums(attention, mu, 0.0)
        return ready, time.perf_counter() - start

    def velocities(x: jax.Array) -> jax.Array:
        at = plan()[0].replace_coordinates(x)
        return attention.field(0.0, at)(at.tokens)

    def facts(found: np.ndarray) -> dict[str, Any]:
        ready, seconds = plan()
        freeze = functools.partial(attention.field, 0.0)
        said = motion_of(ready).sum_convergence(freeze, ready, freeze(ready))
        at = _looked_at(x)
        queries = Tokens(jnp.asarray(x[at]), order[at])
        exact = np.asarray(compile_function(_exact)(attention, mu, queries))
        return {
            "error": relative_gap(found[at], exact),
            "bound": None if said is None else float(said.residual),
            "cells": _in_words(ready.reduction),
            "planning_seconds": seconds,
        }

    velocity = compiler(velocities)
    plan()
    return Job(lambda: np.asarray(jax.block_until_ready(velocity(mu.tokens.x))), facts)


def _exact(attention: Attention, mu: Points, at: Tokens) -> jax.Array:
    pairs = Points(mu.tokens, mu.log_weights, Blocked())
    return attention.field(0.0, pairs)(at)


def _in_words(how: AbstractReduction) -> str:
    if not isinstance(how, Cells) or how.layout is None:
        return "none, exact sums"
    return f"{'×'.join(map(str, how.layout.cells))} of {how.layout.nodes} nodes an axis"


def _looked_at(x: np.ndarray) -> np.ndarray:
    """Tokens at which errors are computed: the farthest, the most isolated, others."""
    if len(x) <= ALL:
        return np.arange(len(x))
    far = np.argsort(-np.sum(x**2, axis=1))[:EXTREME]
    gaps = KDTree(x).query(x, 2, workers=-1)[0][:, 1]
    lonely = np.argsort(-gaps)[:EXTREME]
    others = np.random.default_rng(2).choice(len(x), LOOKS - 2 * EXTREME, replace=False)
    return np.unique(np.concatenate([far, lonely, others]))
