"""Softmax velocities by `scaled_dot_product_attention` of PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks._problems import (
    cost_facts,
    directions,
    gradient_facts,
    tokens,
    velocity_facts,
)
from benchmarks._trial import Job, Trial


def velocity(trial: Trial) -> Job:
    """Softmax velocity by PyTorch, without recording operations for gradients."""
    x = _to_device(trial, tokens(trial))
    queries = x[: trial.n_queries]

    def run() -> np.ndarray:
        with torch.no_grad():
            return _attention(trial, queries, x).cpu().numpy()

    return Job(run, lambda velocities: velocity_facts(trial, velocities))


def cost(trial: Trial) -> Job:
    """A scalar function of the velocities of all tokens, without its gradient."""
    cost_function = _cost(trial)

    def run() -> float:
        with torch.no_grad():
            return cost_function(_to_device(trial, tokens(trial))).item()

    return Job(run, lambda scalar: cost_facts(trial, scalar))


def gradient(trial: Trial) -> Job:
    """The scalar of `cost`, and its gradient with respect to the tokens."""
    cost_function = _cost(trial)

    def run() -> Any:
        x = _to_device(trial, tokens(trial)).requires_grad_()
        return torch.autograd.grad(cost_function(x), x)[0].cpu().numpy()

    return Job(run, lambda gradient: gradient_facts(trial, gradient))


def _to_device(trial: Trial, array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array).to("cpu" if trial.device == "cpu" else "cuda")


def _attention(trial: Trial, queries: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    one_head = lambda a: a[None, None]
    keys, scale = one_head(x), 1 / trial.settings["epsilon"]
    out = scaled_dot_product_attention(one_head(queries), keys, keys, scale=scale)
    return out[0, 0]


def _cost(trial: Trial) -> Callable[[torch.Tensor], torch.Tensor]:
    u = _to_device(trial, directions(trial))
    return lambda x: torch.sum(u * _attention(trial, x, x))
