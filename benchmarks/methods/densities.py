"""Flows of densities in the plane."""

from typing import Any

import jax
import numpy as np

import meanfield
from benchmarks._trial import Job, Trial
from meanfield.flows import Trajectory, cfl, flow
from meanfield.measures import Grid, Nodes
from meanfield.measures.edges import even_edges

A = np.array([[-1.0, 0.5], [-0.3, -0.6]])
STAGES, SUMS = 3, 6  # stages per step; operations for three sums per query and cell


def steps(trial: Trial) -> Job:
    """Time steps of a normal density on a grid in the plane."""
    attention = meanfield.attentions[trial.settings["attention"]](
        A, np.eye(2), np.eye(2)
    )
    mu, ts = _normal(trial.n), np.array([0.0, 1e3])
    stepping = cfl(max_steps=trial.settings["steps"])

    def run() -> Trajectory:
        return jax.block_until_ready(flow(attention, mu, ts, stepping=stepping))

    return Job(run, lambda trajectory: _facts(trial, trajectory))


def _normal(cells: int) -> Grid:
    density = lambda x: np.exp(-np.sum(x**2, axis=1) / 2) / (2 * np.pi)
    return Grid.from_function([even_edges(-6, 6, cells)] * 2, density)


def _facts(trial: Trial, trajectory: Trajectory) -> dict[str, Any]:
    steps = int(trajectory.n_accepted + trajectory.n_rejected)
    probe = trajectory.start.probe
    nodes = probe.count if isinstance(probe, Nodes) else 0
    queries = nodes**2 if nodes else 2 * trial.n * (trial.n + 1)
    products = STAGES * SUMS * queries * trial.n**2 * steps
    return {"products": products, "exponentials": 0, "nodes": nodes, "steps": steps}
