"""What a run on a grid says of its own trust, and models side by side with closures."""

import json
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from bert_reference import TEXT, write
from conftest import Finished

from meanfield.cli._report import doubt_in_words
from meanfield.dynamics import Drift
from meanfield.flows import Status, flow
from meanfield.measures import Grid
from meanfield.measures.edges import even

Run = Callable[..., Finished]


def test_a_report_says_that_its_box_was_too_narrow(cli: Run) -> None:
    """Softmax with A = 1: the variance is 1/(1 - 2t), if no tail is cut."""
    common = ("simulate", "--measure", "grid", "--frames", "2")
    done = cli(*common, "--A", "1", "--t", "0.3", "--cells", "200", "--json")
    found = json.loads(done.out)
    error = abs(found["covariance"][0][0] / 2.5 - 1)
    assert found["ending"] == "finished"
    assert error > 5e-3
    assert found["doubt"]["box"] > error / 2
    assert "widen it with" in doubt_in_words(found)


def test_where_the_box_does_not_matter_a_report_says_so(cli: Run) -> None:
    """Softmax with A = -1: the variance is 1/(1 + 2t), to what the doubts say."""
    done = cli(
        "simulate", "--measure", "grid", "--frames", "2", "--A=-1", "--t", "0.5",
        "--cells", "200", "--json",
    )  # fmt: skip
    found = json.loads(done.out)
    error = abs(found["covariance"][0][0] / 0.5 - 1)
    doubts = found["doubt"]
    assert error < 1e-4
    assert doubts["box"] < 1e-4
    assert error < 3 * (doubts["box"] + doubts["cells"])


def test_a_collapse_to_the_origin_ends_when_its_box_is_rounding() -> None:
    """v = -x: the spread is exp(-t), until no number can hold its square."""
    density = lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
    grid = Grid.from_function([even(-6, 6, 40)], density)
    run = flow(Drift(-jnp.eye(1)), grid, np.array([0.0, 10.0, 1000.0]))
    assert run.status is Status.COLLAPSE
    spread = float(run.at(1).spread)
    assert abs(spread / np.exp(-10.0) - 1) < 1e-4
    assert 300 < float(run.stop_time) < 400  # of exp(-2t) and the smallest number


@pytest.mark.slow
def test_a_model_and_its_closure_start_alike(cli: Run, tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny")
    done = cli(
        "compare", "--model", str(folder), "--text", TEXT, "--model-layers", "[0]",
        "--measures", "points,gaussian", "--frames", "5", "--out", "words", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    pair = found["pairs"][0]
    assert pair["verdict"]
    gaps = np.array(pair["covariance_gap"], float)
    assert gaps[0] < 1e-6  # the Gaussian has the moments of the tokens
    assert (tmp_path / "words" / "comparison.png").stat().st_size > 10_000


def test_compare_is_told_measures_not_a_measure(cli: Run) -> None:
    done = cli("compare", "--measure", "grid", "--A=-1")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "`--measures`" in done.err
