"""Sparse Sinkhorn attention in runs and commands: seeds, heads, options, plots."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CommandResult

from meanfield import runs
from meanfield.attention import Attention, attentions, variant_options
from meanfield.attention.sparse import FixedSorting, LearnedSorting, Sparse
from meanfield.dynamics import Heads, Projected
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.measures import Gaussian, Points
from meanfield.scores import Dot
from meanfield.spec import parse

Run = Callable[..., CommandResult]


SPEC = {"attention": "sparse-sinkhorn", "n": 10, "d": 2, "A": -1.0, "seed": 3}


def noise_and_matrices(spec: dict, index: int = 0) -> np.ndarray:
    """The noise and the matrix of each head of a run."""
    attention = runs.member(parse({**SPEC, **spec}), index).dynamics
    stack = attention.stack if isinstance(attention, Heads) else attention
    assert isinstance(stack, Attention)
    assert isinstance(stack.coupling, Sparse)
    sorting = stack.coupling.sorting
    assert isinstance(sorting, LearnedSorting)
    matrix = sorting.network.layers[-1].matrix
    return np.concatenate([np.ravel(matrix), np.ravel(sorting.noise)])


def test_noise_and_matrices_are_drawn_per_head_and_draw():
    noisy = {"options": {"noise": 1.0, "blocks": 3}}
    first = noise_and_matrices(noisy)
    np.testing.assert_array_equal(noise_and_matrices(noisy), first)
    for changed_spec in (
        {**noisy, "seed": 4},
        {"options": {"noise": 2.0, "blocks": 3}},
    ):
        assert not np.array_equal(noise_and_matrices(changed_spec), first)
    assert not np.array_equal(noise_and_matrices({**noisy, "draws": 2}, 1), first)
    heads = noise_and_matrices({**noisy, "heads": 2, "A": [1.0, 1.0], "V": [1.0, 1.0]})
    assert len(np.unique(np.round(heads, 12))) == heads.size


def test_a_list_of_matrices_has_one_for_each_head():
    rows = np.arange(8.0).reshape(2, 2, 2).tolist()
    heads = {"heads": 2, "A": [1.0, 1.0], "V": [1.0, 1.0]}
    actual = noise_and_matrices({**heads, "options": {"W_B": rows}})
    np.testing.assert_array_equal(actual[:8], np.arange(8.0))
    with pytest.raises(InvalidInputError, match="list of 2 matrices"):
        noise_and_matrices(
            {**heads, "heads": 1, "A": 1.0, "V": 1.0, "options": {"W_B": rows}}
        )


@pytest.mark.slow
def test_sparse_sinkhorn_runs_and_plots_from_the_command_line(cli: Run, tmp_path: Path):
    run = ("simulate", "--d", "2", "--n", "10", "--A", "-1", "--t", "0.2", "--frames=3")
    options = "blocks=3,noise=0.5,temperature=2"
    run_options = (
        "--attention",
        "sparse-sinkhorn",
        "--options",
        options,
        "--out",
        "run.zarr",
    )
    assert cli(*run, *run_options).code == 0
    for panel in ("tokens", "attention"):
        assert cli("plot", "run.zarr", "--panel", panel).code == 0
    gaussian = cli("simulate", "--measure", "gaussian", *run_options[:4], "--t", "0.1")
    grid = cli("simulate", "--measure", "grid", *run_options[:4], "--t", "0.1")
    for arguments, measure_name in ((gaussian, "a Gaussian"), (grid, "a grid")):
        assert arguments.code == 2
        assert "`sparse-sinkhorn` attention cuts a sequence" in arguments.err
        assert measure_name in arguments.err


def test_options_of_sparse_sinkhorn_are_named():
    assert list(variant_options("sortcut")) == [
        "budget",
        "blocks",
        "W_B",
        "W_P",
        "temperature",
        "noise",
        "passes",
        "order",
    ]


def test_the_projected_closure_is_rejected():
    I, mu = np.eye(1), Gaussian(jnp.zeros(1), jnp.eye(1))
    with pytest.raises((UnsupportedError, NotClosedError), match="cuts a sequence"):
        mu.transport(Projected(attentions["sparse-sinkhorn"](I, I, I)).field(0.0, mu))


def test_reordered_blocks_are_an_order():
    assert FixedSorting([1, 0]).n_blocks == 2
    with pytest.raises(InvalidInputError, match="each block once"):
        FixedSorting([[0, 1]])
    zero = Dot(np.zeros((1, 1)), np.eye(1))
    mu = Points.uniform([[1.0], [2.0]], position=[0.5, 1.0])
    v = Attention(zero, Sparse(FixedSorting([1, 0])), np.eye(1)).field(0.0, mu)(
        mu.tokens
    )
    np.testing.assert_array_equal(np.ravel(v), [2.0, 1.0])
