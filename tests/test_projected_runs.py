"""Runs of the Gaussian closure: rejected where impossible, labelled otherwise."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.spec import parse


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"attention": "sigmoid"}, "add `measure = gaussian`"),
        ({"measure": "gaussian", "mask": "causal"}, "excludes `mask`"),
        ({"measure": "gaussian", "terms": [{"mask": "causal"}]}, "excludes `mask`"),
    ],
)
def test_specs_without_projection_are_rejected_with_a_reason(
    values: dict, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as error_info:
        parse({"projected": True, **values})
    assert "\n" not in str(error_info.value)


def test_the_command_reports_the_approximation(cli: Callable[..., Any]) -> None:
    options = ["--attention", "sigmoid", "--measure", "gaussian", "--frames", "2"]
    failure = cli("simulate", *options)
    assert failure.code == 2
    assert "points, `projected`, or" in failure.err
    result = cli("simulate", *options, "--projected", "--t=0.1", "--json", "--out=run")
    report = json.loads(result.out)
    assert report["projected"] is True
    assert "projected on Gaussians" in report["approximation"]
    assert 0 < report["residual"] < 1e-6  # between 96 and 128 nodes: 4e-9
    assert runs.dataset(Path("run")).attrs["title"].endswith("(approximation)")
    assert "(approximation)" in cli("simulate", *options, "--projected").out
