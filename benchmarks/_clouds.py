"""Small clouds: initial states, velocities and reference solutions, in NumPy."""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import logsumexp

from ._problems import pair_costs, relative_gap
from ._trial import Trial

N_COMPARED = 3  # number of clouds whose final states are compared
REFERENCE_RTOL = 1e-11  # relative tolerance of the reference solutions
SINKHORN_TOLERANCE = 1e-12  # tolerance on the range of the log marginals
MAX_ITERATIONS = 10_000


def initial_states(trial: Trial) -> np.ndarray:
    """Initial states of all clouds, `(clouds, n, d)`."""
    shape = trial.settings["clouds"], trial.n, trial.d
    return np.random.default_rng(0).standard_normal(shape)


def velocity(trial: Trial, x: np.ndarray) -> np.ndarray:
    """Velocities of the tokens of one cloud."""
    scores = trial.settings["A"] * (x @ x.T)
    if trial.settings["attention"] == "sinkhorn":
        scores = scores + _potential(scores)[None]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return trial.settings["V"] * (weights @ x) / weights.sum(axis=1, keepdims=True)


def _potential(scores: np.ndarray) -> np.ndarray:
    """Sinkhorn's column potential for a symmetric score, by averaged half-steps."""
    g = np.zeros(len(scores))
    for _ in range(MAX_ITERATIONS):
        change = -np.asarray(logsumexp(scores + g, axis=1)) - g
        if np.ptp(change) < SINKHORN_TOLERANCE:
            break
        g = g + change / 2
    return g


def solve_with_scipy(trial: Trial, x: np.ndarray, rtol: float, method: str) -> Any:
    """Integrates one cloud to t = 1 with SciPy's adaptive steps."""
    rate = lambda _, flat: velocity(trial, flat.reshape(x.shape)).ravel()
    ends = 0.0, 1.0
    return solve_ivp(rate, ends, x.ravel(), method=method, rtol=rtol, atol=rtol / 10)


def end_facts(trial: Trial, ends: np.ndarray, evaluations: int) -> dict[str, Any]:
    """Error of the final states, and operation counts of all velocity evaluations."""
    x = initial_states(trial)
    indices = np.unique(np.linspace(0, len(x) - 1, min(N_COMPARED, len(x))).astype(int))
    exact = [
        solve_with_scipy(trial, x[i], REFERENCE_RTOL, "DOP853").y[:, -1]
        for i in indices
    ]
    shape = (len(indices), trial.n, trial.d)
    error = relative_gap(np.asarray(ends)[indices], np.reshape(exact, shape))
    if trial.settings["attention"] == "sinkhorn":
        return {"error": error}  # no costs, since the number of iterations is unknown
    costs = {key: evaluations * cost for key, cost in pair_costs(trial).items()}
    return {"error": error, **costs}
