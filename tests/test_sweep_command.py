"""The command `sweep`, and its errors, in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CommandResult

Run = Callable[..., CommandResult]


def test_sweep_computes_plots_and_resumes(cli: Run, tmp_path: Path) -> None:
    keys = ("--measure", "gaussian", "--d", "1", "--t", "0.1", "--max-steps", "12")
    keys += ("--segment", "100")
    axes = ("--over", "A=0:2:3,cov=1:2:2:log")
    result = cli("sweep", *keys, *axes, "--out", "s", "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["cells"] == 6
    assert sum(report["endings"].values()) == 6
    assert set(report["endings"]) == {"finished", "max-steps"}  # still exit code 0
    assert report["compilations"] == 1
    assert report["axes"][1] == {"name": "cov", "scale": "log", "values": [1.0, 2.0]}
    assert report["sweep"] == "s"
    second = cli("sweep", "s")
    assert second.code == 0
    for words in ("max-steps", "%", "3 A × 2 cov", "compilations", "table.csv"):
        assert words in second.out
    assert "meanfield plot s --panel phase" in second.err
    plot_result = cli(
        "plot", "s", "--panel", "phase", "--colour", "trace", "--out", "p.png"
    )
    assert plot_result.code == 0
    assert (tmp_path / "p.png").exists()
    labels = cli("plot", "s", "--colour", "@labels.npy")
    assert labels.code == 2
    assert "no tokens to colour" in labels.err
    failure = cli("plot", "s", "--colour", "size")
    assert (failure.code, failure.err.count("\n")) == (2, 1)
    assert "known: ending, stop_time" in failure.err
    other_result = cli("sweep", *keys, "--over", "A=-1:1:4", "--out", "s")
    assert "holds a sweep with a different `axes`" in other_result.err
    fixed = cli("sweep", "s", "--epsilon", "2")
    assert "Leave out `--epsilon`" in fixed.err


def test_a_sweep_without_workers_is_only_prepared(cli: Run, tmp_path: Path) -> None:
    keys = ("--measure", "gaussian", "--t", "0.1", "--over", "A=0|1", "--out", "s")
    prepared = cli("sweep", *keys, "--workers", "0")
    assert (prepared.code, prepared.out) == (0, "")
    assert "each job runs `meanfield sweep s`" in prepared.err
    assert not (tmp_path / "s" / "table.csv").exists()
    joined = cli("sweep", "s")
    assert joined.code == 0
    assert "finished" in joined.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--out", "s"), 2, "A sweep needs an axis"),
        (("--over", "A=0|1"), 2, "add `--out`"),
        (("--over", "A=0|1", "--A", "1", "--out", "s"), 2, "as an option, and in"),
        (("--over", "A=0|1", "--draws", "2", "--out", "s"), 2, "leave out `draws`"),
        (("--over", "A=0|1", "--out", "full"), 2, "holds no sweep"),
        (("--over", "A=0|1", "--workers", "-1", "--out", "s"), 2, "from 0 to"),
        (("full",), 3, "There is no sweep at"),
        (("none.toml", "--over", "A=0|1", "--out", "s"), 3, "neither a sweep nor"),
        (("phase",), 3, "neither a sweep nor a spec at `phase`"),
        (("--over", "A=0:1:2000,V=0:1:2000", "--out", "s"), 4, "4000000 cells"),
    ],
)
def test_sweep_mistakes_give_one_line(
    cli: Run, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    result = cli("sweep", *arguments)
    assert result.code == code
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_a_cell_that_a_field_rejects_rejects_the_sweep(cli: Run, tmp_path: Path):
    """ReLU keeps centred Gaussians only: one line, and nothing is written."""
    result = cli(
        *("sweep", "--measure", "gaussian", "--attention", "relu", "--A=1"),
        *("--over", "mean=0|1|2", "--t", "1", "--out", "relu"),
    )
    assert result.code == 2
    assert "In the cell mean = 1" in result.err
    assert not Path("relu").exists()


def test_a_cell_takes_the_steps_of_simulate(cli: Run):
    """`max_steps` counts in each segment, in both."""
    keys = ("--measure", "gaussian", "--A=-1", "--t", "40", "--frames", "41")
    keys += ("--segment", "2", "--max-steps", "60", "--rtol", "1e-10")
    single_report = json.loads(cli("simulate", *keys, "--cov", "1", "--json").out)
    result = json.loads(
        cli("sweep", *keys, "--over", "cov=1|2", "--out", "s", "--json").out
    )
    assert single_report["ending"] == "finished"
    assert result["endings"] == {"finished": 2}
