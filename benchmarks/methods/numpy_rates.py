"""Matrix products and exponentials by NumPy."""

import numpy as np

from benchmarks._trial import Job, Trial


def product(trial: Trial) -> Job:
    """Product of a square matrix with itself by NumPy."""
    a = _numbers(trial, (trial.n, trial.n))
    return Job(lambda: a @ a, lambda _: {"products": 2 * trial.n**3})


def exponentials(trial: Trial) -> Job:
    """Repeated exponentials by NumPy, written into the same array."""
    x, repeats = _numbers(trial, (trial.n,)), trial.settings["repeats"]
    out = np.empty_like(x)

    def run() -> None:
        for _ in range(repeats):
            np.exp(x, out=out)

    return Job(run, lambda _: {"exponentials": repeats * trial.n})


def _numbers(trial: Trial, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).uniform(-30, 0, shape).astype(trial.dtype)
