"""Sinkhorn potentials and sliced plans by POT."""

import warnings
from typing import Any

import numpy as np
import ot

from benchmarks._marginals import cloud, facts, half_squares
from benchmarks._problems import tokens
from benchmarks._sliced import matrices, slice_directions, sliced_facts
from benchmarks._trial import Job, Trial


def log_domain(trial: Trial) -> Job:
    """POT's `sinkhorn_log`, which iterates until the L² marginal error is small."""
    C, n = half_squares(cloud(trial)), trial.n
    w = np.full(n, 1 / n)
    # The threshold is the L² norm of a marginal error with entries ±tolerance/n.
    threshold = trial.settings["tolerance"] / np.sqrt(n)

    def run() -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # non-convergence shows in `error`
            return ot.bregman.sinkhorn_log(
                w,
                w,
                C,
                trial.settings["epsilon"],
                numItermax=10_000,
                stopThr=threshold,
                log=True,
            )[1]

    return Job(run, lambda log: facts(trial, log["log_u"], log["log_v"]), warmups=0)


def expected_plan(trial: Trial) -> Job:
    """Velocities from POT's expected plan over all slices, as a dense matrix."""
    x, (Q, K) = tokens(trial), matrices(trial)
    theta = slice_directions(trial.settings["slices"], len(Q)).astype(x.dtype)

    def run() -> np.ndarray:
        plan = ot.sliced.expected_sliced_plan(
            x @ Q.T, x @ K.T, projections=theta.T, dense=True
        )
        return trial.n * np.asarray(plan[0]) @ x

    return Job(run, lambda values: sliced_facts(trial, "esp", values), max_repeats=5)
