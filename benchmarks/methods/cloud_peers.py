"""Flows of small clouds under softmax attention, computed without `meanfield`."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import _clouds
from benchmarks._trial import Job, Trial

HIGHEST = jax.lax.Precision.HIGHEST
A = TypeVar("A", np.ndarray, jax.Array)


def scipy_loop(trial: Trial) -> Job:
    """Adaptive steps of SciPy, one cloud after another."""
    x = _clouds.initial_states(trial)

    def run() -> list[Any]:
        rtol = trial.settings["rtol"]
        return [_clouds.solve_with_scipy(trial, cloud, rtol, "RK45") for cloud in x]

    def facts(solutions: list[Any]) -> dict[str, Any]:
        ends = np.stack(
            [solution.y[:, -1].reshape(x.shape[1:]) for solution in solutions]
        )
        evaluations = sum(solution.nfev for solution in solutions)
        return _clouds.end_facts(trial, ends, evaluations)

    return Job(run, facts, warmups=0)


def numpy_loop(trial: Trial) -> Job:
    """Heun steps in NumPy, one cloud after another."""
    x, steps = _clouds.initial_states(trial), trial.settings["steps"]
    rate = lambda cloud: _clouds.velocity(trial, cloud)

    def integrate(cloud: np.ndarray) -> np.ndarray:
        for _ in range(steps):
            cloud = _heun_step(rate, cloud, 1 / steps)
        return cloud

    run = lambda: np.stack([integrate(cloud) for cloud in x])
    return Job(run, lambda ends: _facts(trial, ends), warmups=0)


def jax_vmap(trial: Trial) -> Job:
    """Heun steps in JAX, with all clouds batched and dense scores."""
    x, steps = jnp.asarray(_clouds.initial_states(trial)), trial.settings["steps"]

    def rate(cloud: jax.Array) -> jax.Array:
        scores = trial.settings["A"] * jnp.matmul(cloud, cloud.T, precision=HIGHEST)
        weights = jax.nn.softmax(scores, axis=1)
        return trial.settings["V"] * jnp.matmul(weights, cloud, precision=HIGHEST)

    def integrate(cloud: jax.Array) -> jax.Array:
        step = lambda _, state: _heun_step(rate, state, 1 / steps)
        return jax.lax.fori_loop(0, steps, step, cloud)

    batched = jax.jit(jax.vmap(integrate))
    return Job(
        lambda: jax.block_until_ready(batched(x)), lambda ends: _facts(trial, ends)
    )


def _heun_step(rate: Callable[[A], A], x: A, dt: float) -> A:
    """One Heun step."""
    first = rate(x)
    return x + dt / 2 * (first + rate(x + dt * first))


def _facts(trial: Trial, ends: np.ndarray | jax.Array) -> dict[str, Any]:
    evaluations = 2 * trial.settings["steps"] * trial.settings["clouds"]
    return _clouds.end_facts(trial, np.asarray(ends), evaluations)
