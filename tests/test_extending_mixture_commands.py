"""Every command accepts a run of a plugin's measure, or names what is missing."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from extending_page import CLI, commands, load_example, run_command
from mixture_reference import integrate, total_moments
from PIL import Image, ImageSequence

from meanfield import runs
from meanfield.runs.representations import representations
from meanfield.spec import measures, parse
from meanfield.storage import RunStore, kinds

pytestmark = pytest.mark.usefixtures("restore_registries")

PLUGIN = ("--plugin", "docs/extending/mixture.py")
TITLE = "A representation"


@pytest.fixture
def clear_registries(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Clears registrations, as in a new process."""
    registries = kinds, measures, representations
    saved = [dict(registry.items()) for registry in registries]

    def forgetting() -> None:
        for registry, items in zip(registries, saved, strict=True):
            monkeypatch.setattr(registry, "_items", dict(items))
        for name in [n for n in sys.modules if n.startswith("meanfield_plugin_")]:
            del sys.modules[name]

    return forgetting


def error_line(cli: CLI, *arguments: str) -> str:
    """The one-line error of a command."""
    finished = cli(*arguments)
    assert finished.code in (2, 3)
    assert finished.err.count("\n") == 1
    return finished.err


def files(run: Path) -> dict[str, bytes]:
    """All stored bytes of a run."""
    inside = (path for path in (run / "data").rglob("*") if path.is_file())
    return {str(path.relative_to(run)): path.read_bytes() for path in inside}


@pytest.mark.slow
def test_the_page_moves_a_mixture(
    page: CLI, clear_registries: Callable[[], None], tmp_path: Path
):
    (
        list_command,
        simulate_command,
        show_command,
        plot_command,
        move_command,
        export_command,
        *_,
    ) = commands(TITLE)
    assert "weighted Gaussians" in run_command(page, list_command)
    clear_registries()
    assert "--plugin" in error_line(
        page, *simulate_command[: simulate_command.index("--plugin")]
    )
    report = json.loads(run_command(page, [*simulate_command, "--json"]))
    frames = RunStore.open(tmp_path / "clumps.zarr").dataset()
    w, m, Y = (frames[name].values for name in ("share", "means", "factors"))
    A, S = -np.eye(2), Y @ np.swapaxes(Y, -1, -2)
    m1, S1 = integrate(A, np.eye(2), w, (m[0], S[0]), 1.0)
    mean, covariance = total_moments(w, m1, S1)
    np.testing.assert_allclose(report["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(report["covariance"], covariance, atol=1e-5)
    assert "by projection" in report["approximation"]
    clear_registries()
    assert "--plugin" in error_line(page, *show_command[:2])
    assert "mixture" in run_command(page, show_command)
    clear_registries()
    assert "--plugin" in error_line(page, *export_command[:3])
    run_command(page, export_command)
    table = np.genfromtxt(tmp_path / "clumps.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["mean0"][-1], report["mean"][0], rtol=1e-12)
    cells = [table[f"cov{i}{j}"][-1] for i in (0, 1) for j in (0, 1)]
    np.testing.assert_allclose(cells, np.ravel(report["covariance"]), rtol=1e-10)
    clear_registries()
    run_command(page, plot_command)
    assert (tmp_path / "clumps-tokens.png").stat().st_size > 0
    clear_registries()
    run_command(page, move_command)
    with Image.open(tmp_path / "clumps.gif") as movie:
        show_command = {frame.tobytes() for frame in ImageSequence.Iterator(movie)}
    assert len(show_command) >= 5  # the stored ones, and what is between
    copy = tmp_path / "copy.py"
    copy.write_bytes((tmp_path / PLUGIN[1]).read_bytes())
    (tmp_path / "docs").unlink()
    for command in ("plot", "animate", "resume"):
        clear_registries()
        assert "`mixture.py`" in error_line(page, command, "clumps.zarr")
        run_command(page, [command, "clumps.zarr", "--plugin", "copy.py"])


@pytest.mark.slow
def test_a_resumed_mixture_has_the_same_bytes(
    page: CLI, clear_registries: Callable[[], None], tmp_path: Path
):
    plugins = [Path(str(load_example("mixture").__file__))]
    keys = {"measure": "mixture", "init": "mixture", "A": -1.0, "t": 0.5, "frames": 5}
    spec = parse({**keys, "segment": 2, "rtol": 1e-4})
    runs.execute(spec, out=tmp_path / "whole", plugins=plugins)

    def stop(progress: runs.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.execute(spec, out=tmp_path / "cut", plugins=plugins, report=stop)
    assert RunStore.open(tmp_path / "cut").frames == 3
    clear_registries()
    run_command(page, ["resume", "cut"])
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    continue_command = (
        "simulate",
        "--from",
        "whole",
        "--t",
        "0.6",
        "--dry-run",
        "--measure",
    )
    assert "holds a mixture of" in error_line(
        page, *continue_command, "points", *PLUGIN
    )
    run_command(page, [*continue_command, "gaussian", *PLUGIN])
    clear_registries()
    assert "--plugin" in error_line(page, *continue_command, "gaussian")


@pytest.mark.slow
def test_the_page_compares_a_mixture_with_tokens(
    page: CLI, clear_registries: Callable[[], None], tmp_path: Path
):
    compare_command = commands(TITLE)[6]
    assert "--plugin" in error_line(
        page, *compare_command[: compare_command.index("--plugin")]
    )
    actual = json.loads(run_command(page, [*compare_command, "--json"]))
    (pair,) = actual["pairs"]
    assert pair["separation"] is None
    assert pair["distance_method"] == "lower bound by moments"
    assert pair["distance_error"] == [None] * 3
    assert "mixture: its components are kept Gaussian" in pair["verdict"]
    assert (tmp_path / "both" / "comparison.png").stat().st_size > 0


@pytest.mark.slow
def test_the_page_sweeps_over_measures(
    page: CLI, clear_registries: Callable[[], None], tmp_path: Path
):
    """One component under softmax is the Gaussian, whose flow is known."""
    swept = commands(TITLE)[7]
    without = swept[: swept.index("--plugin")]
    assert "--plugin" in error_line(page, *without, "--out=alone")
    assert json.loads(run_command(page, [*swept, "--json"]))["endings"] == {
        "finished": 2
    }
    table = np.genfromtxt(
        tmp_path / "alone" / "table.csv", delimiter=",", names=True, dtype=None
    )
    for name in ("mean0", "cov00"):
        np.testing.assert_allclose(*table[name], rtol=1e-6)
    variance = 1 / (2 + 2 * 0.5)  # Σ' = −2Σ²
    np.testing.assert_allclose(table["cov00"], variance, rtol=1e-6)
    clear_registries()
    result = page("sweep", "alone")
    assert result.code == 0
    assert "plugin: " in result.err
    clear_registries()
    run_command(page, ["plot", "alone"])
    assert (tmp_path / "alone-phase.png").stat().st_size > 0
