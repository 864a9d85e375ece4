"""Matrix products and exponentials by PyTorch."""

import numpy as np
import torch

from benchmarks._trial import Job, Trial


def product(trial: Trial) -> Job:
    """Product of a square matrix with itself by PyTorch."""
    a = _numbers(trial, (trial.n, trial.n))

    def run() -> None:
        (a @ a).ravel()[0].item()  # reading an entry waits for the device

    return Job(run, lambda _: {"products": 2 * trial.n**3})


def exponentials(trial: Trial) -> Job:
    """Repeated exponentials by PyTorch, written into the same array."""
    x, repeats = _numbers(trial, (trial.n,)), trial.settings["repeats"]
    out = torch.empty_like(x)

    def run() -> None:
        for _ in range(repeats):
            torch.exp(x, out=out)
        out[0].item()

    return Job(run, lambda _: {"exponentials": repeats * trial.n})


def _numbers(trial: Trial, shape: tuple[int, ...]) -> torch.Tensor:
    numbers = np.random.default_rng(0).uniform(-30, 0, shape).astype(trial.dtype)
    return torch.from_numpy(numbers).to("cpu" if trial.device == "cpu" else "cuda")
