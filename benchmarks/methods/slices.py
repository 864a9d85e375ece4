"""Velocities of sliced and Sinkhorn attention by `meanfield`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import meanfield
from benchmarks._problems import tokens
from benchmarks._sliced import BACK, MANY, PAPER, matrices, sliced_facts
from benchmarks._trial import Job, Trial
from meanfield.attention import Attention
from meanfield.flows import compile_function
from meanfield.measures import Points


def hard(trial: Trial) -> Job:
    """Hard sliced attention, which matches queries and keys by their ranks."""
    return _job(trial, "esp", slices=trial.settings["slices"])


def soft(trial: Trial) -> Job:
    """Soft sliced attention, in which the weights of each token sum to one."""
    options = {name: trial.settings[name] for name in ("slices", "temperature")}
    return _job(trial, "esp-soft", **options)


def sinkhorn(trial: Trial) -> Job:
    """Sinkhorn attention after a fixed number of half-steps."""
    return _job(trial, "sinkhorn", iterations=trial.settings["l"])


def softmax(trial: Trial) -> Job:
    """Softmax attention of dot products."""
    return _job(trial, "softmax", epsilon=trial.d**0.5)


def differential(trial: Trial) -> Job:
    """Differential attention: one softmax minus half of a second softmax."""
    Q, K = matrices(trial)
    second = {"Q2": Q[::-1], "K2": K[::-1], "lambda_": 0.5}
    return _job(trial, "differential", epsilon=trial.d**0.5, **second)


def _job(trial: Trial, name: str, **options: Any) -> Job:
    Q, K = matrices(trial)
    value = np.eye(trial.d, dtype=trial.dtype)
    attention: Attention = meanfield.attentions[name](Q, K, value, **options)
    mu = Points.uniform(tokens(trial))
    function_in_jit = compile_function(FUNCTIONS[trial.problem])
    run = lambda: np.asarray(jax.block_until_ready(function_in_jit(attention, mu)))
    return Job(run, lambda values: sliced_facts(trial, name, values), max_repeats=20)


def _velocities(attention: Attention, mu: Points) -> Array:
    return attention.field(0.0, mu)(mu.tokens)


def _gradient(attention: Attention, mu: Points) -> Array:
    """Gradient of the mean square of the velocities with respect to all tokens."""

    def square(x: Array) -> Array:
        return jnp.mean(_velocities(attention, mu.replace_coordinates(x)) ** 2)

    return jax.grad(square)(mu.tokens.x)


FUNCTIONS = {PAPER: _velocities, MANY: _velocities, BACK: _gradient}
