"""`meanfield.simulate`: the keys of the command line, in Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import assert_close

import meanfield
from meanfield import Gaussian
from meanfield.errors import InvalidInputError, UnknownNameError


def test_simulate_accepts_arrays_as_matrices():
    A = np.array([[-1.0, 0.5], [0.0, -1.0]])
    keys = {"measure": "gaussian", "V": 0.0, "cov": np.diag([2.0, 1.0]), "t": 1.0}
    run = meanfield.simulate(A=A, **keys)
    assert A.tolist() == run.spec.A
    end = run.measures[0]
    assert isinstance(end, Gaussian)
    assert_close(end.covariance, np.diag([2.0, 1.0]))  # V = 0 moves nothing


def test_simulate_keys_override_a_preset(cli: Callable[..., Any]):
    run = meanfield.simulate("two-heads", A=-1.0, n=7, t=0.1, frames=3, out="mine.zarr")
    options = ("--A=-1", "--n", "7", "--t", "0.1", "--frames", "3")
    code = cli("simulate", "--preset", "two-heads", *options, "--out", "cli.zarr").code
    assert code == 0
    stored = meanfield.open("cli.zarr")
    assert run.dataset.attrs["spec"] == stored.attrs["spec"]
    assert np.array_equal(run.dataset["x"], stored["x"])


def test_missing_frames_are_explained():
    run = meanfield.simulate(n=3, t=0.1, frames=2)
    with pytest.raises(InvalidInputError, match="as `out`"):
        run.plot.tokens()


def test_simulate_names_invalid_keys():
    with pytest.raises(UnknownNameError, match="did you mean `collapse`"):
        meanfield.simulate("colapse")
    with pytest.raises(InvalidInputError, match="did you mean `attention`"):
        meanfield.simulate(atention="l2")
    with pytest.raises(InvalidInputError, match=r"Points\.uniform"):
        meanfield.simulate(init=np.zeros((3, 2)))
