"""Small clouds, how they are moved, and where they must be: NumPy and SciPy."""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import logsumexp

from ._problems import pair_costs, relative_gap
from ._trial import Trial

LOOKED_AT = 3  # clouds whose last states are compared
EXACT = 1e-11  # relative error of the steps that they are compared with
SOLVED = 1e-12  # of the sup of |log marginal|, where those are Sinkhorn's
PASSES = 10_000


def starts(trial: Trial) -> np.ndarray:
    """The states of all clouds, `(clouds, n, d)`."""
    shape = trial.settings["clouds"], trial.n, trial.d
    return np.random.default_rng(0).standard_normal(shape)


def velocity(trial: Trial, x: np.ndarray) -> np.ndarray:
    """The velocities of the tokens of one cloud."""
    scores = trial.settings["A"] * (x @ x.T)
    if trial.settings["attention"] == "sinkhorn":
        scores = scores + _potential(scores)[None]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return trial.settings["V"] * (weights @ x) / weights.sum(axis=1, keepdims=True)


def _potential(scores: np.ndarray) -> np.ndarray:
    """The potential of columns, for a symmetric score: half a step, averaged."""
    g = np.zeros(len(scores))
    for _ in range(PASSES):
        change = -np.asarray(logsumexp(scores + g, axis=1)) - g
        if np.ptp(change) < SOLVED:
            break
        g = g + change / 2
    return g


def solved(trial: Trial, x: np.ndarray, rtol: float, method: str) -> Any:
    """One cloud at the end, by SciPy's adaptive steps."""
    rate = lambda _, flat: velocity(trial, flat.reshape(x.shape)).ravel()
    ends = 0.0, 1.0
    return solve_ivp(rate, ends, x.ravel(), method=method, rtol=rtol, atol=rtol / 10)


def end_facts(trial: Trial, ends: np.ndarray, evaluations: int) -> dict[str, Any]:
    """The error of the last states, and what so many velocities cost at least."""
    x = starts(trial)
    at = np.unique(np.linspace(0, len(x) - 1, min(LOOKED_AT, len(x))).astype(int))
    exact = [solved(trial, x[i], EXACT, "DOP853").y[:, -1] for i in at]
    shape = (len(at), trial.n, trial.d)
    error = relative_gap(np.asarray(ends)[at], np.reshape(exact, shape))
    if trial.settings["attention"] == "sinkhorn":
        return {"error": error}  # its passes over pairs are not counted
    costs = {key: evaluations * cost for key, cost in pair_costs(trial).items()}
    return {"error": error, **costs}
