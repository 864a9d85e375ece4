"""Velocities of sparse Sinkhorn attention by `meanfield`, and by NumPy."""

from typing import Any

import jax
import numpy as np

import meanfield
from benchmarks._problems import tokens
from benchmarks._sparse import (
    block_order,
    reference_velocities,
    sorting_weights,
    sparse_facts,
)
from benchmarks._trial import Job, Trial
from meanfield.flows import compile_function
from meanfield.measures import Points


def hard(trial: Trial) -> Job:
    """Sparse Sinkhorn attention with a permutation of the blocks."""
    return _job(trial, "hard", "sparse-sinkhorn", order=block_order(trial))


def balanced(trial: Trial) -> Job:
    """Sparse Sinkhorn attention with a balanced sorting matrix of the blocks."""
    return _job(trial, "balanced", "sparse-sinkhorn", **_sorting_options(trial))


def cut(trial: Trial) -> Job:
    """SortCut attention to one block, the first of those mixed by a balanced matrix."""
    return _job(trial, "cut", "sortcut", budget=1, **_sorting_options(trial))


def softmax(trial: Trial) -> Job:
    """Softmax attention over all pairs."""
    return _job(trial, "softmax", "softmax")


def by_blocks(trial: Trial) -> Job:
    """Sparse attention with a balanced matrix in NumPy, block by block."""
    all_blocks = range(trial.settings["blocks"])
    facts = lambda values: sparse_facts(trial, "balanced", values)
    return Job(
        lambda: reference_velocities(trial, "balanced", all_blocks),
        facts,
        max_repeats=20,
    )


def _sorting_options(trial: Trial) -> dict[str, Any]:
    return {"W_B": sorting_weights(trial), "passes": trial.settings["passes"]}


def _job(trial: Trial, kind: str, name: str, **options: Any) -> Job:
    identity = np.eye(trial.d, dtype=trial.dtype)
    attention = meanfield.attentions[name](identity, identity, identity, **options)
    position = np.arange(1, trial.n + 1) / trial.n
    mu = Points.uniform(tokens(trial), position=position)
    velocity = compile_function(
        lambda attention, mu: attention.field(0.0, mu)(mu.tokens)
    )
    run = lambda: np.asarray(jax.block_until_ready(velocity(attention, mu)))
    return Job(run, lambda values: sparse_facts(trial, kind, values), max_repeats=20)
