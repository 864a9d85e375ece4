"""Sliced attention in NumPy, which sorts, gathers and adds slice by slice."""

from benchmarks._problems import tokens
from benchmarks._sliced import match_by_ranks, matrices, sliced_facts
from benchmarks._trial import Job, Trial


def hard(trial: Trial) -> Job:
    """Hard sliced attention, which matches queries and keys by their ranks."""
    x, (Q, K) = tokens(trial), matrices(trial)
    run = lambda: match_by_ranks(x, Q, K, trial.settings["slices"])
    return Job(run, lambda values: sliced_facts(trial, "esp", values), max_repeats=20)
