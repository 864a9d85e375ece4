r"""Covariances under softmax attention with $V = I$, and their exact solution.

Here $\Sigma' = \Sigma (A + A^\top) \Sigma$, so $\Sigma^{-1}$ is linear in time.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meanfield
from benchmarks._trial import Job, Trial
from experiments.covariances.parameters import P4
from meanfield.flows import AbstractStop, BlowUp, Trajectory, adaptive, ensemble
from meanfield.measures import Gaussian
from meanfield.measures.families import family

END_TIME = 1.5  # final time, in units of the latest blow-up time of all members
N_BISECTIONS = 60


def initial_covariances(trial: Trial) -> np.ndarray:
    """Initial covariances of trace one."""
    covariances = family(trial.settings["starts"], trial.d, key=jax.random.key(0))
    return np.asarray(covariances)


def score_matrix(trial: Trial) -> np.ndarray:
    r"""Score matrix $A$ of castin2025, Figure 2(a), or a random one.

    In both cases $A + A^\top$ is positive definite.
    """
    if trial.d == 2:
        return np.array(P4["K"]).T @ np.array(P4["Q"]) / 2**0.5
    G, H = np.random.default_rng(0).standard_normal((2, trial.d, trial.d))
    return G @ G.T / trial.d + (H - H.T) / trial.d**0.5


def to_trace_bound(trial: Trial) -> Job:
    """An ensemble whose members stop at the published bound on the trace."""
    stop = BlowUp(trial.settings["bound"] ** 0.5)

    def facts(trajectory: Trajectory) -> dict[str, Any]:
        factors = np.asarray(trajectory.last[1])
        return time_facts(
            trial, np.asarray(trajectory.stop_time), np.sum(factors**2, (1, 2))
        )

    return Job(_run(trial, stop), facts)


def to_blow_up(trial: Trial) -> Job:
    """An ensemble whose members are integrated until they blow up."""

    def facts(trajectory: Trajectory) -> dict[str, Any]:
        return time_facts(
            trial, np.asarray(trajectory.t_star), np.full(trial.n, np.inf)
        )

    return Job(_run(trial, None), facts)


def _run(trial: Trial, stop: AbstractStop | None) -> Any:
    Sigma, A, identity = (
        initial_covariances(trial),
        score_matrix(trial),
        np.eye(trial.d),
    )
    attention = meanfield.attentions["softmax"](A, identity, identity)
    members = [Gaussian.from_moments(np.zeros(trial.d), S) for S in Sigma]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    ts = np.array([0.0, END_TIME * blow_up_times(Sigma, A).max()])
    stepping = adaptive(rtol=trial.settings["rtol"])
    return lambda: jax.block_until_ready(
        ensemble(attention, stack, ts, stepping=stepping, stop=stop)
    )


def time_facts(trial: Trial, times: np.ndarray, traces: np.ndarray) -> dict[str, Any]:
    """Largest error in a member's final time, relative to the member's blow-up time.

    The exact final time is the time at which the exact solution reaches the member's
    final trace.
    """
    Sigma, A = initial_covariances(trial), score_matrix(trial)
    exact, blow_ups = times_of_traces(Sigma, A, traces), blow_up_times(Sigma, A)
    return {"error": float(np.max(np.abs(times - exact) / blow_ups))}


def blow_up_times(Sigma: np.ndarray, A: np.ndarray) -> np.ndarray:
    r"""Blow-up times $1/\lambda_{\max}(\Sigma^{1/2} (A + A^\top) \Sigma^{1/2})$."""
    return 1 / np.linalg.eigvals(Sigma @ (A + A.T)).real.max(axis=1)


def times_of_traces(Sigma: np.ndarray, A: np.ndarray, traces: np.ndarray) -> np.ndarray:
    """Times at which the exact solution has given traces, found by bisection."""
    inverse, S = np.linalg.inv(Sigma), A + A.T
    low, high = np.zeros(len(Sigma)), blow_up_times(Sigma, A)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        # Near the blow-up time, the inverse covariance is numerically singular.
        inverse_at_middle = inverse - middle[:, None, None] * S
        covariance = np.linalg.pinv(inverse_at_middle, rcond=0.0, hermitian=True)
        is_above = np.trace(covariance, axis1=1, axis2=2) > traces
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return low
