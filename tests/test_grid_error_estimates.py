"""Error estimates in reports of runs on grids, and comparisons with closures."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from bert_reference import TEXT, write
from conftest import CommandResult
from line_reference import moments_by_tokens, uniform

from meanfield import runs
from meanfield.cli.jobs._report import describe_error_estimate
from meanfield.dynamics import Drift
from meanfield.endings import Status
from meanfield.flows import flow
from meanfield.measures import Grid
from meanfield.measures.edges import even_edges
from meanfield.spec import parse
from meanfield.storage import RunStore

Run = Callable[..., CommandResult]


def report(cli: Run, *args: str) -> dict[str, Any]:
    """The JSON report of a run on a grid."""
    result = cli("simulate", "--measure", "grid", "--frames", "3", *args, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["200", "201"])
def test_a_too_narrow_box_is_reported_unresolved(cli: Run, cells: str) -> None:
    """Softmax with A = 1: the variance is 1/(1 - 2t), if no tail is cut."""
    actual = report(cli, "--A", "1", "--t", "0.44", "--cells", cells)
    error = abs(1 / (1 - 0.88) / actual["covariance"][0][0] - 1)
    assert error > 0.5
    assert actual["error_estimate"]["covariance"] > error
    assert actual["error_estimate"]["box"] > actual["error_estimate"]["cells"]
    assert actual["ending"] == "unresolved"
    assert "widen the box with `half_width`" in actual["reason"]


@pytest.mark.slow
def test_the_report_states_when_the_box_does_not_matter(cli: Run) -> None:
    """Softmax with A = -1: the variance is 1/(1 + 2t), within the error estimates."""
    actual = report(cli, "--A=-1", "--t", "0.5", "--cells", "201")
    error = abs(0.5 / actual["covariance"][0][0] - 1)
    assert actual["ending"] == "finished"
    assert actual["error_estimate"]["box"] < 1e-4
    assert error < actual["error_estimate"]["covariance"] < 1e-3
    assert "the covariance may be off by" in describe_error_estimate(actual)


@pytest.mark.slow
def test_single_precision_has_an_error_estimate(cli: Run) -> None:
    """Softmax with A = -1: the variance is 1/(1 + 2t)."""
    actual = report(
        cli, "--A=-1", "--t", "0.5", "--cells", "60", "--precision", "single"
    )
    error = abs(0.5 / actual["covariance"][0][0] - 1)
    assert actual["dtype"] == "float32"
    assert error < actual["error_estimate"]["covariance"] < 0.1


@pytest.mark.slow
def test_an_oversmoothed_law_suggests_more_cells(cli: Run) -> None:
    """Uniform on [-1, 1] under softmax with A = 1 becomes two points, by tokens."""
    args = ("--init", "ball", "--A", "1", "--cells", "200", "--t")
    early, late = (report(cli, *args, t) for t in ("1", "3"))
    laws = [
        moments_by_tokens(uniform(-1, 1), "softmax", 1.0, 1.0, t) for t in (1.0, 3.0)
    ]
    pairs = zip(laws, (early, late), strict=True)
    errors = [abs(s[0, 0] / r["covariance"][0][0] - 1) for (_, s), r in pairs]
    assert (early["ending"], late["ending"]) == ("finished", "unresolved")
    assert errors[0] < early["error_estimate"]["covariance"] < 0.1
    assert 0.04 < errors[1] < late["error_estimate"]["covariance"]
    assert "more `cells`" in late["reason"]


@pytest.mark.slow
def test_a_resumed_run_has_the_same_error_estimate(cli: Run, tmp_path: Path) -> None:
    args = ("simulate", "--measure", "grid", "--cells", "201", "--A=-1")
    args += ("--t", "0.5", "--frames", "5", "--segment", "2", "--json", "--out")
    whole = json.loads(cli(*args, "whole").out)
    spec = parse(RunStore.open(tmp_path / "whole").spec)

    def stop(progress: runs.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "cut", report=stop)
    halves = [json.loads(cli("resume", "cut", "--json").out) for _ in range(2)]
    assert whole["error_estimate"]["covariance"] > 0
    assert [half["error_estimate"] for half in halves] == [whole["error_estimate"]] * 2


@pytest.mark.slow
def test_a_sweep_reports_error_estimates_and_endings(cli: Run, tmp_path: Path) -> None:
    args = ("--measure=grid", "--frames=3", "--cells=201", "--t=0.4")
    result = cli("sweep", *args, "--over", "A=-1|1", "--out", "sweep", "--json")
    assert result.code == 0, result.err
    with (tmp_path / "sweep" / "table.csv").open() as table:
        rows = list(csv.DictReader(table))
    single_reports = [report(cli, *args[2:], f"--A={A}") for A in (-1, 1)]
    assert [row["ending"] for row in rows] == ["finished", "unresolved"]
    assert [actual["ending"] for actual in single_reports] == ["finished", "unresolved"]
    for row, actual in zip(rows, single_reports, strict=True):
        worst = max(
            actual["error_estimate"]["covariance"], actual["error_estimate"]["mean"]
        )
        # A run ends steps at its frames, a sweep does not.
        assert float(row["error_estimate"]) == pytest.approx(worst, rel=1e-2)


@pytest.mark.slow
def test_a_collapse_ends_when_its_box_is_at_rounding_level() -> None:
    """v = -x: the spread is exp(-t), until its square underflows."""
    density = lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
    grid = Grid.from_function([even_edges(-6, 6, 40)], density)
    run = flow(Drift(-jnp.eye(1)), grid, np.array([0.0, 10.0, 1000.0]))
    assert run.status is Status.COLLAPSE
    spread = float(run.frame(1).spread)
    assert abs(spread / np.exp(-10.0) - 1) < 1e-4
    assert 300 < float(run.stop_time) < 400  # of exp(-2t) and the smallest number


@pytest.mark.slow
def test_a_model_and_its_closure_start_alike(cli: Run, tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny")
    result = cli(
        "compare", "--model", str(folder), "--text", TEXT, "--model-layers", "[0]",
        "--measures", "points,gaussian", "--frames", "5", "--out", "words", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    actual = json.loads(result.out)
    pair = actual["pairs"][0]
    assert pair["verdict"]
    gaps = np.array(pair["covariance_gap"], float)
    assert gaps[0] < 1e-6  # the Gaussian has the moments of the tokens
    assert (tmp_path / "words" / "comparison.png").stat().st_size > 10_000


def test_compare_takes_measures_and_rejects_measure(cli: Run) -> None:
    result = cli("compare", "--measure", "grid", "--A=-1")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "`--measures`" in result.err
