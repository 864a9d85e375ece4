"""Softmax velocities by PyTorch, timed without transfers from the device."""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks._problems import tokens, velocity_facts
from benchmarks._trial import Job, Trial


def velocity(trial: Trial) -> Job:
    """Softmax velocity by `scaled_dot_product_attention`, without TF32."""
    has_device = torch.cuda.is_available()
    torch.backends.cuda.matmul.allow_tf32 = False
    x = torch.from_numpy(tokens(trial)).to("cuda" if has_device else "cpu")[None, None]
    scale = 1 / trial.settings["epsilon"]

    def run() -> Any:
        with torch.no_grad():
            v = scaled_dot_product_attention(x, x, x, scale=scale)
        if has_device:
            torch.cuda.synchronize()
        return v

    return Job(run, lambda v: velocity_facts(trial, v[0, 0].cpu().numpy()))
