"""Each command, as a user types it, in this process."""

import json
import math
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandResult
from PIL import Image

from meanfield import runs

Command = Callable[..., CommandResult]

GAUSSIAN = ("simulate", "--measure", "gaussian", "--V", "1", "--cov", "2", "--t", "10")
CLOUD = ("simulate", "--n", "12", "--d", "2", "--A=-1", "--t", "1", "--frames", "6")
KEYS = {"run", "ending", "t", "t_star", "measure", "attention", "n", "d", "dtype"} | {
    "seconds",
    "compile_seconds",
    "mean",
    "covariance",
}


@pytest.fixture
def run(cli: Command) -> str:
    assert cli(*CLOUD, "--out", "run.zarr").code == 0
    return "run.zarr"


@pytest.mark.slow_cases("minus0")
@pytest.mark.parametrize("minus", [("--A", "-1"), ("--A=-1",)])
def test_simulate_prints_the_closed_form_as_one_json_object(
    cli: Command, minus: tuple[str, ...]
) -> None:
    result = cli(*GAUSSIAN, *minus, "--json")
    report = json.loads(result.out)
    assert result.code == 0
    assert result.out.count("\n") == 1
    assert report.keys() >= KEYS
    assert abs(report["covariance"][0][0] - 2 / 41) < 1e-9
    assert report["t_star"] is None
    assert report["run"] is None


def test_a_blow_up_exits_with_0_and_is_reported(cli: Command) -> None:
    result = cli(*GAUSSIAN, "--A", "1", "--json")
    report = json.loads(result.out)
    assert (result.code, report["ending"]) == (0, "blow-up")
    assert abs(report["t_star"] - 0.25) < 1e-6


def test_seconds_and_compile_seconds_add_up(cli: Command) -> None:
    begin = time.perf_counter()
    result = cli(*CLOUD, "--json")
    wall = time.perf_counter() - begin
    report = json.loads(result.out)
    assert report["compile_seconds"] > 0
    assert report["seconds"] >= 0
    # The rest is option parsing, since everything is imported by now.
    left = wall - report["seconds"] - report["compile_seconds"]
    assert abs(left) < 0.3 + 0.1 * wall


def test_without_out_no_file_is_written(cli: Command, tmp_path: Path) -> None:
    result = cli(*CLOUD)
    assert result.code == 0
    assert "not stored" in result.out
    assert list(tmp_path.iterdir()) == []


def test_options_override_the_file_and_the_file_the_preset(
    cli: Command, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text("t = 0.5\nn = 4\nframes = 3\n")
    options = ("--preset", "collapse", "--n", "3", "--out", "run")
    assert cli("simulate", "spec.toml", *options).code == 0
    keys = tomllib.loads(cli("show", "run", "--toml").out)
    preset = {"A": -1.0, "V": 1.0, "init": "antithetic", "d": 2}
    assert keys == {**preset, "t": 0.5, "n": 3, "frames": 3}


def test_q_and_k_override_the_a_of_a_preset(cli: Command) -> None:
    options = ("--Q", "[[1,0]]", "--K", "[[0,1]]", "--n", "3", "--t", "0.1")
    assert cli("simulate", "--preset", "collapse", *options).code == 0


def test_a_run_repeats_from_its_own_keys(
    cli: Command, run: str, tmp_path: Path
) -> None:
    (tmp_path / "again.toml").write_text(cli("show", run, "--toml").out)
    assert cli("simulate", "again.toml", "--out", "again").code == 0
    first, second = (runs.dataset(tmp_path / name) for name in (run, "again"))
    assert first["x"].values.tobytes() == second["x"].values.tobytes()
    record = json.loads(cli("show", run, "--json", "--check").out)
    assert record["spec"] == tomllib.loads((tmp_path / "again.toml").read_text())
    assert record["ending"] == "finished"
    assert record["frames"] == 6


def test_from_continues_with_other_parameters(
    cli: Command, run: str, tmp_path: Path
) -> None:
    args = ("--from", run, "--at", "0.4", "--A", "2", "--t", "0.6", "--out", "b")
    assert cli("simulate", *args).code == 0
    a, b = runs.dataset(tmp_path / run), runs.dataset(tmp_path / "b")
    np.testing.assert_array_equal(b["x"].values[0], a["x"].values[2])
    last = cli("simulate", "--from", run, "--t", "1.2", "--dry-run", "--json")
    assert json.loads(last.out)["n"] == 12


def test_resume_of_a_finished_run_reports_it(cli: Command, run: str) -> None:
    report = json.loads(cli("resume", run, "--json").out)
    assert (report["ending"], report["t"], report["n"]) == ("finished", 1.0, 12)


@pytest.mark.slow
def test_plot_draws_every_applicable_panel(
    cli: Command, run: str, tmp_path: Path
) -> None:
    result = cli("plot", run, "--panel", "all")
    names = ["tokens", "spectrum", "clusters", "cone", "disc", "attention"]
    assert result.code == 0, result.err
    files = {path.name for path in tmp_path.iterdir()} - {run}
    assert files == {f"run-{n}.{e}" for n in names for e in ("pdf", "png")}
    assert cli("plot", run, "--out", "one.svg").code == 0
    assert (tmp_path / "one.svg").exists()


def test_plot_all_draws_panels_that_accept_the_style(
    cli: Command, run: str, tmp_path: Path
) -> None:
    result = cli("plot", run, "--panel", "all", "--link", "0.5", "--out", "near.png")
    assert result.code == 0, result.err
    files = {path.name for path in tmp_path.glob("near*")}
    assert files == {"near-tokens.png", "near-clusters.png"}
    assert "no picture of `cone`: `link` does nothing in the panel `cone`" in result.err


def test_plot_all_ignores_limits_for_panels_in_space(
    cli: Command, run: str, tmp_path: Path
) -> None:
    result = cli("plot", run, "--panel", "all", "--xlim=-1,1", "--out", "far.png")
    assert result.code == 0, result.err
    assert (tmp_path / "far-tokens.png").exists()
    assert not (tmp_path / "far-cone.png").exists()
    assert "no picture of `cone`: `xlim` does nothing in the panel `cone`" in result.err


def test_plot_options_set_the_style(cli: Command, run: str, tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.repeat(["left", "right"], 6))
    look = ("--width", "85mm", "--no-title", "--style", "dark", "--xlim=-9,9")
    result = cli("plot", run, "--out", "a.png", "--colour", "@labels.npy", *look)
    assert result.code == 0, result.err
    with Image.open(tmp_path / "a.png") as image:
        assert image.width == pytest.approx(220 * 85 / 25.4, abs=1)
    np.save(tmp_path / "short.npy", np.arange(5))
    (tmp_path / "text.npy").write_text("left right")
    invalid_options = {
        ("--colour", "@short.npy"): (2, "one label for each token; the shape"),
        ("--colour", "@text.npy"): (3, "is not a .npy file of labels"),
        ("--title", "a", "--no-title"): (2, "`--title` and `--no-title` contradict"),
        ("--panel", "cone", "--relative"): (2, "`relative` does nothing in the panel"),
        ("--html", "--panel", "cone", "--style", "dark"): (2, "with `--html`"),
        ("--cmap", "virids"): (2, "no colour map `virids`; use one such as `viridi"),
        ("--width", "wide"): (2, "`width` must be a length such as 85mm"),
    }
    for options, (code, message) in invalid_options.items():
        failure = cli("plot", run, *options)
        assert failure.code == code
        assert message in failure.err
        assert failure.err.count("\n") == 1
    failure = cli("animate", run, "--size", "big")
    assert (failure.code, "`size` must be in pixels" in failure.err) == (2, True)


def test_a_movie_and_tables_are_written(cli: Command, run: str, tmp_path: Path) -> None:
    assert cli("animate", run, "--fps", "5", "--seconds", "1").code == 0
    assert (tmp_path / "run.gif").read_bytes()[:3] == b"GIF"
    assert cli("export", run, "run.npz").code == 0
    assert np.load(tmp_path / "run.npz")["x"].shape == (6, 12, 2)
    assert cli("export", run, "run.csv").code == 0
    table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    assert len(table) == 6 * 12


@pytest.mark.slow
def test_several_draws_are_plotted_as_bands(cli: Command, tmp_path: Path) -> None:
    small = ("--n", "6", "--d", "2", "--t", "0.3", "--frames", "4", "--A", "normal")
    result = cli("simulate", *small, "--draws", "3", "--out", "many", "--json")
    report = json.loads(result.out)
    assert report["endings"] == {"finished": 3}
    assert np.shape(report["covariance"]) == (3, 2, 2)
    assert cli("plot", "many", "--panel", "spectrum").code == 0
    assert (tmp_path / "many-spectrum.png").exists()


def test_a_dry_run_writes_and_integrates_nothing(cli: Command, tmp_path: Path) -> None:
    result = cli("simulate", "--n", "5000", "--dry-run", "--json", "--out", "run")
    plan = json.loads(result.out)
    assert plan["n"] == 5000
    assert plan["reduction"].startswith("blocked")
    assert plan["disk"] == 5000 * 8 * 101
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow_cases("options0")
@pytest.mark.parametrize(
    "options",
    [
        ("--precision", "single"),
        ("--dt", "0.1"),
        ("--attention", "linear", "--mask", "causal"),
        ("--attention", "sinkhorn", "--iterations", "3", "--mask", "window:0.5"),
        ("--heads", "2", "--scale", "sqrt-k"),
        ("--init", "ring", "--weights", "[1,2,3,4,5,6,7,8,9,10,11,0]"),
    ],
)
def test_options_of_variants_run(cli: Command, options: tuple[str, ...]) -> None:
    result = cli(*CLOUD, *options, "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["ending"] == "finished"
    single = "single" in options
    assert report["dtype"] == ("float32" if single else "float64")
    assert math.isfinite(np.sum(report["covariance"]))


KINDS = ["attentions", "clouds", "families", "masks", "models"]


@pytest.mark.parametrize("kind", KINDS)
def test_list_shows_registered_names(cli: Command, kind: str) -> None:
    rows = json.loads(cli("list", kind, "--json").out)
    output = cli("list", kind).out
    assert rows
    assert [row["name"] for row in rows if row["name"] not in output] == []


def test_show_describes_models_and_names(cli: Command) -> None:
    assert json.loads(cli("models", "list", "--json").out)[0]["name"] == "minilm"
    assert json.loads(cli("show", "collapse", "--json").out)["keys"]["d"] == 2
    assert "Sinkhorn" in cli("show", "sinkhorn").out
    assert "jax" in json.loads(cli("info", "--json").out)
