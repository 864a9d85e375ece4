"""The published procedure of castin2025 in NumPy, for one member after another."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks._trial import Job, Trial

from .covariances import initial_covariances, score_matrix, time_facts

FLOOR = 1e-14  # after each step, smaller eigenvalues are replaced by this
REST = 1e-4  # a member stops if the norm of its rate of change is below this
MAX_STEPS = 50_000


class Family(NamedTuple):
    """Final times and traces of the members, and the total number of steps."""

    times: np.ndarray
    traces: np.ndarray
    steps: int


def published_steps(trial: Trial) -> Job:
    """Explicit Euler steps with clipped eigenvalues, up to a bound on the trace."""
    Sigma, A, identity = (
        initial_covariances(trial),
        score_matrix(trial),
        np.eye(trial.d),
    )
    dt, bound = trial.settings["dt"], trial.settings["bound"]

    def run() -> Family:
        ends = [_integrate(S, (A, identity), dt, bound) for S in Sigma]
        counts = np.array([count for count, _ in ends])
        traces = np.array([trace for _, trace in ends])
        return Family(dt * counts, traces, int(counts.sum()))

    def facts(members: Family) -> dict[str, Any]:
        return {
            **time_facts(trial, members.times, members.traces),
            "steps": members.steps,
        }

    return Job(run, facts, warmups=0)


def _integrate(
    Sigma: np.ndarray, matrices: tuple[np.ndarray, np.ndarray], dt: float, bound: float
) -> tuple[int, float]:
    """Integrates one member; returns the number of its steps and its final trace."""
    A, V = matrices
    count = 0
    while count < MAX_STEPS:
        L = V @ Sigma @ A
        rate = L @ Sigma + Sigma @ L.T
        values, U = np.linalg.eigh(Sigma + dt * rate)
        Sigma = (U * np.maximum(values, FLOOR)) @ U.T
        count += 1
        if np.linalg.norm(rate) < REST or np.trace(Sigma) > bound:
            break
    return count, float(np.trace(Sigma))
