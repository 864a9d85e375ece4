"""Tokens that all coincide: panels, movies and pages draw them, or explain.

Pytest turns warnings into errors.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from figure_contents import draw
from matplotlib.figure import Figure
from matplotlib.text import Text
from plotting_data import points

from meanfield.errors import InvalidInputError
from meanfield.pages.report._run import run_scene
from meanfield.plotting import Film, Look, animate, panels
from meanfield.plotting.reading.data import cloud
from meanfield.plotting.reading.pace import interpolable_steps

NO_NUMBER = re.compile(r"\b(nan|inf|infinity)\b", re.IGNORECASE)
SWEEP_PANELS = {"phase", "lines"}
DENSITY_PANELS = {"balance", "density"}
FRAMES = 3
SHORT = Film(fps=5, seconds=0.4, size=(240, 250))


def identical(n: int, d: int, places: list[float]) -> xr.Dataset:
    """Tokens that coincide at each time, with all data that panels draw."""
    frames = len(places)
    x = np.broadcast_to(np.array(places)[:, None, None], (frames, n, d))
    still = ("time", np.zeros(frames))
    maps = np.full((1, 1, n, n), 1 / n)
    return points(x).assign(
        energy=("time", np.ones(frames)),
        dissipation=still,
        steepest=still,
        attention=(("snapshot", "head", "query", "token"), maps),
        snapshot=("snapshot", [0.0]),
    )


def cases() -> Iterator[tuple[str, xr.Dataset]]:
    for d in (1, 2, 3):
        yield f"two tokens in {d}", identical(2, d, [1.1] * FRAMES)
        yield f"five moving tokens in {d}", identical(5, d, [0.7, 1.3, 1.9])
        yield f"one frame in {d}", identical(5, d, [1.1])
    yield "at zero", identical(5, 2, [0.0] * FRAMES)


CASES = dict(cases())


def refusal_of(panel: str, run: xr.Dataset) -> str:
    """The expected error of a panel that cannot draw a run."""
    d, sizes = run.sizes["coord"], run.sizes
    reasons = {
        "draws a sweep": panel in SWEEP_PANELS,
        "needs a density": panel in DENSITY_PANELS,
        "no observed numbers": panel == "numbers",
        "needs a run whose `A` is": panel == "leaders",
        "needs two frames": panel == "merges" and sizes["time"] == 1,
        "In one dimension": panel == "rank" and d == 1,
        "of dimension 2": panel in ("cone", "disc") and d != 2,
        "of dimension 3": panel == "simplex" and d != 3,
        "All covariances are zero": panel in ("disc", "simplex"),
    }
    return next((text for text, holds in reasons.items() if holds), "")


def texts_of(figure: Figure) -> list[str]:
    texts = draw(figure).findobj(Text)
    return [text.get_text() for text in texts if isinstance(text, Text)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("panel", panels)
def test_a_panel_draws_identical_tokens_or_explains(panel: str, name: str) -> None:
    run = CASES[name]
    if error_info := refusal_of(panel, run):
        with pytest.raises(InvalidInputError, match=error_info) as caught_error:
            panels[panel](run)
        assert "\n" not in str(caught_error.value)
        return
    assert not NO_NUMBER.search("\n".join(texts_of(panels[panel](run))))


@pytest.mark.parametrize("panel", ["tokens", "spectrum", "clusters"])
def test_identical_tokens_in_relative_units_are_drawn(panel: str) -> None:
    run = CASES["five moving tokens in 2"]
    texts = texts_of(panels[panel](run, Look(relative=True)))
    assert not NO_NUMBER.search("\n".join(texts))


@pytest.mark.parametrize("name", CASES)
def test_identical_tokens_have_a_movie_or_one_frame(tmp_path: Path, name: str) -> None:
    run, target = CASES[name], tmp_path / "a.gif"
    if run.sizes["time"] == 1:
        with pytest.raises(InvalidInputError, match="at least two frames"):
            animate(run, target, film=SHORT)
        return
    assert animate(run, target, film=SHORT).exists()


@pytest.mark.parametrize("name", CASES)
def test_a_report_of_identical_tokens_holds_numbers(name: str) -> None:
    scene = run_scene(CASES[name], lambda *_: None)
    text = json.dumps(scene, allow_nan=False)  # raises at a NaN
    assert json.loads(text)


def test_rounding_of_identical_tokens_breaks_no_line() -> None:
    """Means of coinciding tokens are off by a rounding in some frames."""
    x = np.repeat(np.array([0.9, 1.0, 1.1, 1.2])[:, None, None], 5, axis=1)
    x[[1, 3], 0] += np.spacing(1.0)
    assert interpolable_steps(cloud(points(x))).all()
