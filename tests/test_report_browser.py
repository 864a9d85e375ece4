"""Pages of reports in a real browser: playing, rotating, selecting, export."""

from collections.abc import Callable, Iterator
from pathlib import Path

import density_data
import numpy as np
import pytest
import report_store
import xarray as xr
from browser import PROGRAM, Browser, needs_browser
from plotting_data import ensemble, moving_gaussian, points
from test_report import quiet

from meanfield.pages.report import Page, page_of, subject_of
from meanfield.pages.report._run import run_scene

pytestmark = needs_browser
PICTURE = "stage.above.toDataURL() + stage.below.toDataURL()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("no Chromium")
    with Browser(tmp_path_factory.mktemp("browser")) as window:
        yield window


@pytest.fixture(scope="module")
def run(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """A page of a run of tokens in the plane, with lines of attention."""
    folder = tmp_path_factory.mktemp("run")
    x = report_store.moving_tokens(np.random.default_rng(3))
    path = report_store.finished_run(folder / "run.zarr", x)
    plans = np.random.default_rng(4).dirichlet(np.ones(30), size=(2, 2, 30))
    dims = ("snapshot", "head", "query", "token")

    def read(place: Path):
        from meanfield.runs import dataset

        with_plans = dataset(place).assign(attention=(dims, plans))
        words = ("token", [f"word{i}" for i in range(30)])
        return with_plans.assign_coords(snapshot=[0.0, 2.0], word=words)

    page = page_of(subject_of(path), quiet, read)
    (folder / "run.html").write_text(page.as_html(), encoding="utf-8")
    browser.size(1280, 900)
    browser.open((folder / "run.html").as_uri())
    return browser


def test_a_page_plays_to_its_end_and_stops(run: Browser) -> None:
    run.value("document.activeElement.blur(), player.speed = 20, goTo(0)")
    first = run.value(PICTURE)
    run.key(" ")
    run.wait("flow.place === frames() - 1 && !player.playing")
    assert run.value(PICTURE) != first
    assert run.value("byId('clock').textContent") == "t = 2"
    assert "frame 9 of 9" in run.value("byId('status').textContent")
    assert run.complaints == []


@pytest.mark.slow
def test_keys_step_from_frame_to_frame(run: Browser) -> None:
    run.value("goTo(3.5)")
    run.key("ArrowRight")
    assert run.value("flow.place") == 4
    run.key("ArrowLeft")
    run.key("ArrowLeft")
    assert run.value("flow.place") == 2
    run.key("Home")
    assert run.value("flow.place") == 0


@pytest.mark.slow
def test_a_click_on_a_curve_sets_the_time(run: Browser) -> None:
    x, y = run.middle("#curves canvas")
    run.drag((x, y), (x, y))
    share = run.value("timeAt(flow.place)") / 2
    width = run.value("curves.made[0].canvas.clientWidth")
    assert share == pytest.approx((width / 2 - 52) / (width - 62), abs=0.01)
    texts = run.value("Array.from(curves.made, (c) => c.readout.textContent)")
    run.value("goTo(0)")
    assert run.value("Array.from(curves.made, (c) => c.readout.textContent)") != texts


@pytest.mark.slow
def test_the_slider_sets_the_time(run: Browser) -> None:
    run.value("byId('time').focus()")
    run.value(
        "byId('time').value = 5.25, byId('time').dispatchEvent(new Event('input'))"
    )
    assert run.value("flow.place") == 5.25
    assert run.value("byId('clock').textContent") == "t = 1.313"


def test_labels_stand_beside_tokens_without_overlap(run: Browser) -> None:
    run.value("document.activeElement.blur(), goTo(0), stage.head = 1")
    run.value("stage.token = 4, repaint()")
    labels, partners = run.value("[stage.labels, looks().partners]")
    assert labels[0]["token"] == 4
    assert len({label["token"] for label in labels} & set(partners)) > 6
    assert not run.value(
        "stage.labels.some((a, i) => stage.labels.some((b, j) => i < j && "
        "a.x < b.x + b.wide && b.x < a.x + a.wide && a.y < b.y + b.tall && "
        "b.y < a.y + a.tall))"
    )
    text = run.value("byId('token').textContent")
    assert text.startswith("Token 4 “word4” at (")
    assert f"looks most at {partners[0]} “word{partners[0]}” (" in text
    run.value("stage.token = -1, repaint()")


@pytest.mark.slow
def test_a_selected_token_shows_its_attention(run: Browser) -> None:
    run.value("document.activeElement.blur(), goTo(0), stage.head = 1")
    run.key("]")
    assert run.value("stage.token") == 0
    words = run.value("byId('token').textContent")
    look = run.value("looks()")
    row = np.random.default_rng(4).dirichlet(np.ones(30), size=(2, 2, 30))[0, 1, 0]
    assert look["partners"][0] == row.argmax()
    assert look["weights"][0] == pytest.approx(row.max(), abs=1e-5)
    assert f"looks most at {row.argmax()} “word{row.argmax()}” (" in words


@pytest.mark.slow
def test_the_token_under_the_mouse_is_selected(run: Browser) -> None:
    run.value("goTo(0), stage.token = -1")
    run.middle("#stage")
    place = run.value(
        "(() => { const s = stage.screens.get(tokenLayer()); "
        "const f = stage.above.getBoundingClientRect(); "
        "return [f.x + s[7], f.y + s[30 + 7]]; })()"
    )
    run.drag(tuple(place), tuple(place))
    assert run.value("stage.token") == 7


@pytest.mark.slow
def test_the_cone_rotates_when_dragged(run: Browser) -> None:
    before = run.value("[cone.camera.azimuth, cone.canvas.toDataURL()]")
    x, y = run.middle("#cone")
    run.drag((x, y), (x + 60, y + 15))
    after = run.value("[cone.camera.azimuth, cone.canvas.toDataURL()]")
    assert after[0] == pytest.approx(before[0] - 60 / 150)
    assert after[1] != before[1]


@pytest.mark.slow
def test_colours_follow_the_selection(run: Browser) -> None:
    pictures = {
        run.value(
            f"byId('choose-colour').value = '{name}', "
            "byId('choose-colour').dispatchEvent(new Event('change')), "
            "stage.below.toDataURL()"
        )
        for name in ("start", "norm", "none")
    }
    assert len(pictures) == 3


@pytest.mark.slow
def test_the_picture_is_exported(run: Browser) -> None:
    run.value("goTo(4), byId('save').click()")
    ready = lambda: list(run.downloads.glob("*.png"))
    for _ in range(200):
        if ready():
            break
        run.value("new Promise((end) => setTimeout(end, 50))")
    (file,) = ready()
    assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert file.name == "t-1.000.png"


@pytest.mark.slow
def test_dots_are_at_the_token_positions(run: Browser) -> None:
    """The picture has ink at every token, and none elsewhere."""
    run.value("stage.token = -1, goTo(8)")
    ink = run.value(
        "(() => { const s = stage.screens.get(tokenLayer()); "
        "const pen = stage.below.getContext('2d'); "
        "const at = (x, y) => Array.from(pen.getImageData("
        "Math.round(x), Math.round(y), 1, 1).data.slice(0, 3)); return ["
        "Array.from({ length: 30 }, (_, i) => at(s[i], s[30 + i])), at(3, 3)]; })()"
    )
    assert ink[1] == [255, 255, 255]
    assert all(min(pixel) < 160 for pixel in ink[0])


@pytest.mark.slow
def test_a_newer_page_keeps_the_time_and_the_view(run: Browser) -> None:
    run.value("goTo(3), camera.zoom = 2, stage.token = 5")
    run.value("adopt({ scene: JSON.parse(byId('data').textContent), title: 'x' })")
    assert run.value("[flow.place, camera.zoom, stage.token]") == [3, 2, 5]
    assert run.complaints == []
    run.value("camera.zoom = 1, goTo(8)")
    run.value("adopt({ scene: JSON.parse(byId('data').textContent), title: 'x' })")
    assert run.value("flow.place") == 8


KINDS = {
    "space": lambda rng: points(rng.normal(size=(4, 25, 3))),
    "line": lambda rng: points(rng.normal(size=(4, 25, 1))),
    "many dimensions": lambda rng: points(rng.normal(size=(4, 25, 7))),
    "a Gaussian": lambda rng: moving_gaussian(rng),
    "Gaussians": lambda rng: ensemble(rng, "gaussian"),
    "draws": lambda rng: ensemble(rng, "points"),
    "a density": lambda rng: density_data.gaussian_in_plane(frames=3),
    "a density on the line": lambda rng: density_data.gaussian_on_line(
        np.linspace(1, 2, 4)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_flow_is_drawn(
    browser: Browser,
    tmp_path: Path,
    rng: np.random.Generator,
    make: Callable[[np.random.Generator], xr.Dataset],
    width: int,
) -> None:
    page = Page("a page", run_scene(make(rng), quiet), "")
    (tmp_path / "page.html").write_text(page.as_html(), encoding="utf-8")
    browser.size(width, 800, dark=width == 400)
    browser.complaints.clear()
    browser.open((tmp_path / "page.html").as_uri())
    pictures = [
        browser.value(f"goTo({place}), {PICTURE}") for place in ("0", "frames() - 1")
    ]
    assert pictures[0] != pictures[1]
    browser.value("stage.above.focus()")
    browser.key("ArrowRight")
    assert browser.value(PICTURE) != pictures[1]  # it rotated, or moved
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []
