"""Commands that a report shows give the same numbers when typed."""

import html
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from browser import Browser, needs_browser
from report_node import evaluate_js, needs_node

from meanfield import runs
from meanfield.pages.report import page_of, subject_of
from meanfield.pages.report._page import Page

pytestmark = pytest.mark.slow
RUN = "--d 2 --A [[1,0.3],[-0.2,0.8]] --V=-1 --n 12 --t 0.5 --frames 4 --seed 7"
SWEEP = "--measure gaussian --d 1 --t 1 --over A=-1:1:3,cov=0.1:4:3:log"
COMPARE = "--A=-1 --V 1 --t 0.2 --n 20 --measures points,gaussian"


def run_in_shell(command: str, folder: Path) -> None:
    """Runs lines in a shell in which `meanfield` is this checkout."""
    folder.mkdir(exist_ok=True)
    root = Path(__file__).parent.parent
    name = folder / "meanfield"
    name.write_text(f'#!/bin/sh\nexec {sys.executable} -m meanfield "$@"\n')
    name.chmod(0o755)
    place = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, **place},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def recipe_of(page: Page) -> str:
    block = re.search(r'<pre class="recipe">(.*?)</pre>', page.cards, re.DOTALL)
    assert block is not None
    return html.unescape(block[1])


def repeat_recipe(name: str, command: str, folder: Path) -> Page:
    """The page of a stored result, after its recipe has been run."""
    run_in_shell(command, folder)
    page = page_of(subject_of(folder / name), lambda count, total: None)
    run_in_shell(recipe_of(page), folder)
    return page


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    folder = tmp_path_factory.mktemp("sweep")
    page = repeat_recipe("cells", f"meanfield sweep {SWEEP} --out cells", folder)
    return folder, page


def assert_same(first: xr.Dataset, second: xr.Dataset) -> None:
    """All numbers, bit for bit, except timings."""
    assert set(first.data_vars) == set(second.data_vars)
    for name in first.data_vars:
        np.testing.assert_array_equal(first[name].values, second[name].values)


def test_a_run_is_repeated_to_the_bit(tmp_path: Path) -> None:
    words = " ".join(f"'{word}'" for word in RUN.split())
    repeat_recipe("run.zarr", f"meanfield simulate {words} --out run.zarr", tmp_path)
    first, second = (runs.dataset(tmp_path / n) for n in ("run.zarr", "repeated.zarr"))
    assert_same(first, second)


def test_a_sweep_is_repeated_to_the_bit(sweep: tuple[Path, Page]) -> None:
    folder, _ = sweep
    assert_same(runs.open(folder / "cells"), runs.open(folder / "repeated"))


def test_a_comparison_is_repeated(tmp_path: Path) -> None:
    repeat_recipe("sides", f"meanfield compare {COMPARE} --out sides", tmp_path)
    for measure in ("points", "gaussian"):
        sides = (
            tmp_path / folder / f"{measure}.zarr" for folder in ("sides", "repeated")
        )
        assert_same(*map(runs.dataset, sides))


@needs_node
def test_a_sweep_cell_is_repeated_as_a_run(sweep: tuple[Path, Page]) -> None:
    folder, page = sweep
    scene = {name: page.scene[name] for name in ("keys", "axes", "plugins")}
    run_in_shell(evaluate_js("commandsOf(scene, [2, 1])", scene), folder)
    run, cells = runs.dataset(folder / "cell.zarr"), runs.open(folder / "cells")
    cell = cells.isel({"A": 2, "cov": 1})
    assert float(run["t_star"]) == pytest.approx(float(cell["t_star"]), rel=1e-6)


@needs_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_phase_diagram_is_repeated(
    sweep: tuple[Path, Page], tmp_path: Path, width: int
) -> None:
    _, page = sweep
    (tmp_path / "cells.html").write_text(page.as_html(), encoding="utf-8")
    words: Callable[[str], str] = lambda name: f"byId('{name}').textContent"
    with Browser(tmp_path) as browser:
        browser.size(width, 900)
        browser.open((tmp_path / "cells.html").as_uri())
        assert "no blow-up before t = 1" in browser.value(words("cell-facts"))
        browser.value("phase.canvas.focus()")
        for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
            browser.key(key)
        assert browser.value(words("cell-name")) == "A = 1, initial covariance Σ₀ = 4"
        assert browser.value("location.hash") == "#cell=2,2"
        assert "blow-up" in browser.value(words("status"))
        assert "A = 1\n" in browser.value(words("cell-recipe"))
        x, y = browser.middle("#phase")
        browser.drag((x, y), (x, y))
        name = browser.value(words("cell-name"))
        assert name == "A = 0, initial covariance Σ₀ = 0.632456"
        assert browser.value("!byId('tip').hidden")
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints == []
