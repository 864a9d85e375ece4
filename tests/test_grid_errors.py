"""Invalid grids and unsupported runs raise one clear line."""

from collections.abc import Callable

import pytest
from conftest import CommandResult

Command = Callable[..., CommandResult]

BAD = {
    "few cells": (("--cells", "5"), ["at least 8 cells"]),
    "no cells": (("--cells=-3",), ["`cells`", "whole number"]),
    "cells of two axes": (("--cells", "[10,20]"), ["`cells`", "d = 1"]),
    "mass outside": (("--domain=-1,1",), ["0.682689", "`domain`"]),
    "narrow box": (("--half-width", "0.5"), ["0.382925", "`half_width`"]),
    "narrow density": (("--half-width", "300"), ["narrow as a cell"]),
    "upside down": (("--domain=1,-1",), ["`domain`", "increasing"]),
    "no domain": (("--domain=abc",), ["`domain`", "'abc'"]),
    "infinite domain": (("--domain=[-Infinity,6]",), ["`domain`"]),
    "both": (("--domain=-6,6", "--half-width", "3"), ["mutually exclusive"]),
    "no width": (("--cov", "0"), ["no density", "`--measure points`"]),
    "three dimensions": (("--d", "3"), ["one or two dimensions", "d = 3"]),
    "grading": (("--grading", "0.5"), ["`grading`"]),
    "cfl": (("--cfl", "2"), ["`cfl`"]),
    "box": (("--box", "afine"), ["`box`", "'affine'"]),
    "solver": (("--solver", "tsit5"), ["`solver`", "`cfl`"]),
    "dt": (("--dt", "0.1"), ["`dt`", "`cfl`"]),
    "rtol": (("--rtol", "1e-3"), ["`rtol`"]),
    "reduction": (("--reduction", "dense"), ["`reduction`"]),
    "positions": (("--positions", "4"), ["`mask`"]),
    "weights": (("--weights", "[1,2]"), ["`weights`", "file"]),
    "bandwidth": (("--bandwidth", "0.1"), ["`bandwidth`"]),
    "starts": (("--starts", "grid:20"), ["Gaussians"]),
    "no density": (("--init", "sphere"), ["`sphere` has no density", "ball"]),
    "unknown cloud": (("--init", "rings"), ["`ring`"]),
    "not a grid": (("--cells", "9", "--measure=points"), ["specified multiple times"]),
}


@pytest.mark.parametrize("name", list(BAD))
def test_invalid_grid_options_raise_one_clear_line(cli: Command, name: str) -> None:
    arguments, words = BAD[name]
    result = cli("simulate", "--measure", "grid", "--A=-1", *arguments)
    assert (result.code, result.out) == (2, "")
    messages = [
        line for line in result.err.splitlines() if line.startswith("meanfield: ")
    ]
    assert (len(messages), result.err.splitlines()[-1:]) == (
        1,
        messages,
    )  # after any progress
    assert [word for word in words if word not in result.err] == [], result.err


def test_unsupported_grid_runs_raise_one_line(cli: Command) -> None:
    result = cli("simulate", "--cells", "9")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "add `--measure grid`" in result.err
    model = ("--measure=grid", "--model", "minilm", "--text", "a")
    assert "two dimensions" in cli("simulate", *model).err
    result = cli("simulate", "--measure=grid", "--cells", "1000000000")
    assert (result.code, result.err.count("\n")) == (4, 1)
    assert "cells fit" in result.err
