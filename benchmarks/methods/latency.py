"""First flows in a process by `meanfield`: parameters, measure, frames."""

from typing import Any

import jax
import numpy as np

from benchmarks._latency import MEAN, TIMES, VARIANCE, first_run, score_matrix
from benchmarks._problems import tokens
from benchmarks._trial import Job, Trial
from meanfield.attention import Attention, attentions
from meanfield.dynamics import Heads, Layers, stack_trees
from meanfield.flows import Isotropic, Trajectory, flow
from meanfield.measures import Gaussian, Grid, Points

N_LAYERS = 6
LAYER_TIMES = np.linspace(0, N_LAYERS, 2 * N_LAYERS + 1)
HALF_WIDTH = 5.0  # of the grid
DIFFUSIVITY = 0.1


def gaussian(trial: Trial) -> Job:
    """A Gaussian under the attention of the trial."""
    return first_run(
        trial,
        lambda trial: _complete(flow(_attention(trial), _normal(trial.d), TIMES)),
        _facts,
    )


def two_heads(trial: Trial) -> Job:
    """A Gaussian under two heads of the attention of the trial."""

    def run(trial: Trial) -> Trajectory:
        heads = Heads(stack_trees([_attention(trial, seed) for seed in range(2)]))
        return _complete(flow(heads, _normal(trial.d), TIMES))

    return first_run(trial, run, _facts)


def cloud(trial: Trial) -> Job:
    """Tokens under the attention of the trial."""
    return first_run(
        trial,
        lambda trial: _complete(flow(_attention(trial), _cloud(trial), TIMES)),
        _facts,
    )


def noisy_cloud(trial: Trial) -> Job:
    """Tokens under the attention of the trial, with isotropic noise."""

    def run(trial: Trial) -> Trajectory:
        noise, key = Isotropic(DIFFUSIVITY), jax.random.key(0)
        dynamics, mu = _attention(trial), _cloud(trial)
        return _complete(flow(dynamics, mu, TIMES, noise=noise, key=key))

    return first_run(trial, run, _facts)


def layers(trial: Trial) -> Job:
    """Tokens under layers with different matrices."""

    def run(trial: Trial) -> Trajectory:
        stack = stack_trees([_attention(trial, seed) for seed in range(N_LAYERS)])
        dynamics = Layers(np.arange(N_LAYERS + 1.0), stack)
        return _complete(flow(dynamics, _cloud(trial), LAYER_TIMES))

    return first_run(trial, run, _facts)


def density(trial: Trial) -> Job:
    """A normal density on cells of the line, under the attention of the trial."""

    def run(trial: Trial) -> Trajectory:
        edges = np.linspace(-HALF_WIDTH, HALF_WIDTH, trial.n + 1)
        centres = (edges[1:] + edges[:-1]) / 2
        mu = Grid.from_density([edges], np.exp(-(centres**2) / 2))
        return _complete(flow(_attention(trial), mu, TIMES))

    return first_run(trial, run, _facts)


def _attention(trial: Trial, seed: int = 0) -> Attention:
    A, identity = score_matrix(trial.d, seed), np.eye(trial.d)
    name = trial.settings.get("attention", "softmax")
    return attentions[name](A, identity, identity)


def _normal(d: int) -> Gaussian:
    return Gaussian.from_moments(np.full(d, MEAN), VARIANCE * np.eye(d))


def _cloud(trial: Trial) -> Points:
    return Points.uniform(tokens(trial))


def _complete(trajectory: Trajectory) -> Trajectory:
    """Waits for the frames."""
    jax.block_until_ready(trajectory.coordinates)
    return trajectory


def _facts(trajectory: Trajectory) -> dict[str, Any]:
    trajectory.raise_for_status()
    return {"steps": int(trajectory.n_accepted + trajectory.n_rejected)}
