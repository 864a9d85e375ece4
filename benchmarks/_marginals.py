"""Marginal errors of an entropic plan between a cloud and itself."""

from typing import Any

import numpy as np

from ._problems import tokens
from ._trial import Trial


def cloud(trial: Trial) -> np.ndarray:
    """The tokens, in double precision."""
    return tokens(trial).astype(np.float64)


def half_squares(x: np.ndarray) -> np.ndarray:
    r"""The costs $|x_i - x_j|^2/2$."""
    squares = np.sum(x**2, axis=1)
    return np.maximum((squares[:, None] + squares[None, :]) / 2 - x @ x.T, 0.0)


def facts(trial: Trial, u: np.ndarray, v: np.ndarray) -> dict[str, Any]:
    r"""Largest error of an entry of either marginal, relative to the weight $1/n$.

    The plan is $e^{u_i + v_j - |x_i - x_j|^2/2\epsilon}$; the weights of the tokens are
    included in $u$ and $v$.
    """
    exponents = u[:, None] + v[None, :]
    exponents -= half_squares(cloud(trial)) / trial.settings["epsilon"]
    plan = np.exp(exponents)
    sums = np.stack([plan.sum(axis=0), plan.sum(axis=1)])
    return {"error": float(np.max(np.abs(trial.n * sums - 1)))}
