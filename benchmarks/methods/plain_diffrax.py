"""Softmax flows in JAX and diffrax without `meanfield`, in one compiled program."""

import functools
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import numpy as np

from benchmarks._latency import MEAN, TIMES, VARIANCE, first_run, score_matrix
from benchmarks._problems import tokens
from benchmarks._trial import Job, Trial

RTOL = float(np.finfo(float).eps) ** 0.6  # the default of `meanfield.adaptive`
ATOL = RTOL / 10
Frames = tuple[Any, jax.Array]  # states at the times of the frames, number of steps


def gaussian(trial: Trial) -> Job:
    """Mean and factor of the covariance of a Gaussian."""

    def run(trial: Trial) -> Frames:
        factor = VARIANCE**0.5 * np.eye(trial.d)
        start = np.full(trial.d, MEAN), factor
        return _integrate(_gaussian_velocity, score_matrix(trial.d), start)

    return first_run(trial, run, _facts)


def cloud(trial: Trial) -> Job:
    """Tokens, with dense matrices of scores."""

    def run(trial: Trial) -> Frames:
        return _integrate(_token_velocity, score_matrix(trial.d), tokens(trial))

    return first_run(trial, run, _facts)


def _gaussian_velocity(_: Any, state: tuple[jax.Array, jax.Array], A: jax.Array) -> Any:
    mean, Y = state
    L = Y @ Y.T @ A
    return mean + L @ mean, L @ Y


def _token_velocity(_: Any, x: jax.Array, A: jax.Array) -> jax.Array:
    return jax.nn.softmax(x @ A.T @ x.T, axis=1) @ x


def _integrate(velocity: Callable[..., Any], A: np.ndarray, start: Any) -> Frames:
    return jax.block_until_ready(_frames(velocity, A, start, TIMES))


@functools.partial(jax.jit, static_argnums=0)
def _frames(
    velocity: Callable[..., Any], A: jax.Array, start: Any, ts: jax.Array
) -> Frames:
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Tsit5(),
        ts[0],
        ts[-1],
        None,
        start,
        args=A,
        saveat=diffrax.SaveAt(ts=ts),
        stepsize_controller=diffrax.PIDController(RTOL, ATOL),
    )
    return solution.ys, solution.stats["num_steps"]


def _facts(frames: Frames) -> dict[str, Any]:
    return {"steps": int(frames[1])}
