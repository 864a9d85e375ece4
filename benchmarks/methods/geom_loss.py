"""Sinkhorn potentials by geomloss."""

from typing import Any

import numpy as np
import torch
from geomloss import SamplesLoss

from benchmarks._marginals import cloud, facts
from benchmarks._trial import Job, Trial


def tensorized(trial: Trial) -> Job:
    """Sinkhorn without a tolerance: each step of a schedule multiplies √ε by 0.9."""
    x, epsilon = torch.from_numpy(cloud(trial)), trial.settings["epsilon"]
    loss = SamplesLoss(
        "sinkhorn",
        p=2,
        blur=epsilon**0.5,
        scaling=0.9,
        debias=False,
        potentials=True,
        backend="tensorized",
    )

    def error_facts(potentials: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
        f, g = (
            potential.numpy().ravel() / epsilon - np.log(trial.n)
            for potential in potentials
        )
        return facts(trial, f, g)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            return loss(x, x)

    return Job(run, error_facts)
