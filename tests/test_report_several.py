"""The report of several runs: side by side, with one cursor."""

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_store
from browser import PROGRAM, Browser, needs_browser
from conftest import CommandResult
from numpy.random import Generator
from test_report import quiet
from test_report_command import data_of

from meanfield.pages.report import Subject, page_of
from meanfield.pages.report.scenes.curves import joint_panels, panel

Command = Callable[..., CommandResult]
PICTURES = "panes.map(({ above, below }) => above.toDataURL() + below.toDataURL())"


def store_runs(folder: Path, rng: Generator, d: int = 2) -> list[Path]:
    """Two runs of the same spec but for the attention, the second in fewer frames."""
    folder.mkdir(exist_ok=True)
    return [
        report_store.finished_run(
            folder / f"{name}.zarr",
            report_store.moving_tokens(rng, frames=frames, d=d),
            {**report_store.SPEC, "attention": name, "d": d},
        )
        for name, frames in (("softmax", 9), ("l2", 5))
    ]


def numbers_of(packed: dict[str, Any]) -> np.ndarray:
    data = zlib.decompress(base64.b64decode(packed["bytes"]))
    return np.frombuffer(data, "<f8").reshape(packed["shape"])


def effective_ranks(x: np.ndarray) -> list[float]:
    """The exponential of the entropy of the eigenvalues of each covariance."""
    ranks = []
    for cloud in x:
        values = np.linalg.eigvalsh(np.cov(cloud.T, bias=True))
        shares = values / values.sum()
        ranks.append(np.exp(-(shares * np.log(shares)).sum()))
    return ranks


def test_the_page_of_two_runs_has_a_curve_of_each(cli: Command, tmp_path: Path) -> None:
    store_runs(tmp_path, np.random.default_rng(3))
    result = cli("report", "softmax.zarr", "l2.zarr")
    assert (result.code, result.out) == (0, "")
    page = (tmp_path / "softmax-l2.html").read_text("utf-8")
    data = data_of(page)
    assert [(m["label"], m["number"]) for m in data["members"]] == [
        ("softmax", 0),
        ("l2", 1),
    ]
    panels = {panel["title"]: panel for panel in data["panels"]}
    ranks = panels["effective rank of Σ"]
    assert ranks["names"] == ["softmax", "l2"]
    rng = np.random.default_rng(3)
    clouds = [report_store.moving_tokens(rng, frames=count) for count in (9, 5)]
    rows = numbers_of(ranks["values"])[0]
    np.testing.assert_allclose(rows[0], effective_ranks(clouds[0]), rtol=1e-12)
    np.testing.assert_allclose(rows[1, ::2], effective_ranks(clouds[1]), rtol=1e-12)
    np.testing.assert_allclose(rows[1, 1::2], (rows[1, :-2:2] + rows[1, 2::2]) / 2)
    assert "eigenvalues of Σ: λ₂" in panels
    for words in ("keys-1.toml", "repeated-2.zarr", "How they ended"):
        assert words in page


def test_curves_end_with_their_runs_and_counts_do_not_move_between_frames() -> None:
    long = panel("a", ["n"], np.array([0.0, 2.0, 4.0]), np.array([[[8.0, 4.0, 1.0]]]))
    short = panel("a", ["n"], np.array([0.0, 1.0]), np.array([[[3.0, 1.0]]]))
    (smooth,) = joint_panels({"long": [long], "short": [short], "none": []})
    expected = [[8, 6, 4, 1], [3, 1, np.nan, np.nan], [np.nan] * 4]
    np.testing.assert_array_equal(smooth["values"][0], expected)
    (counts,) = joint_panels({"long": [{**long, "steps": True}], "short": [short]})
    np.testing.assert_array_equal(counts["values"][0][0], [8, 8, 4, 1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("softmax.zarr", "space.zarr"), "same dimension; got 2, 3"),
        (("softmax.zarr", "softmax.zarr"), "once; got `softmax.zarr` twice"),
        (("softmax.zarr", "absent.zarr"), "absent.zarr"),
        ((), "`report` needs a run"),
        (("softmax.zarr", "l2.zarr", "--watch"), "a run or a sweep; got several runs"),
    ],
)
def test_runs_that_do_not_fit_are_refused(
    cli: Command,
    tmp_path: Path,
    rng: Generator,
    words: tuple[str, ...],
    message: str,
) -> None:
    store_runs(tmp_path, rng)
    store_runs(tmp_path / "d3", rng, d=3)[0].rename(tmp_path / "space.zarr")
    result = cli("report", *words)
    assert result.code != 0
    assert message in result.err
    assert not list(tmp_path.glob("*.html"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A page of two runs in a browser."""
    if PROGRAM is None:
        pytest.skip("no Chromium")
    folder = tmp_path_factory.mktemp("several")
    paths = store_runs(folder, np.random.default_rng(5))
    made = page_of(Subject("runs", folder / "both", {}, paths), quiet)
    (folder / "both.html").write_text(made.as_html(), encoding="utf-8")
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        browser.size(1280, 900)
        browser.open((folder / "both.html").as_uri())
        yield browser


@needs_browser
def test_stages_have_one_time_and_one_camera(page: Browser) -> None:
    page.value("goTo(0)")
    first = page.value(PICTURES)
    assert len(set(first)) == 2
    page.value("goTo(6.5)")
    later = page.value(PICTURES)
    assert all(a != b for a, b in zip(first, later, strict=True))
    page.value("zoomBy(2)")
    assert all(a != b for a, b in zip(later, page.value(PICTURES), strict=True))
    assert page.value("panes[0].whole === panes[1].whole") is True
    captions = "Array.from(document.querySelectorAll('.stage'), (s) => s.innerText)"
    titles = [text.splitlines()[0] for text in page.value(captions)]
    assert titles == ["softmax: finished", "l2: finished"]
    assert page.complaints == []


@needs_browser
def test_a_click_chooses_a_token_of_the_run_under_the_pointer(page: Browser) -> None:
    page.value("stage.token = -1, camera.zoom = 1, goTo(0)")
    spot = json.loads(
        page.value(
            "(() => { const s = panes[1].screens.get(panes[1].screens.keys().next()"
            ".value); const f = panes[1].above.getBoundingClientRect(); "
            "return JSON.stringify([f.left + s[11], f.top + s[30 + 11]]); })()"
        )
    )
    page.drag(tuple(spot), tuple(spot))
    assert page.value("[flow.member, stage.token]") == [1, 11]
    assert "Token 11" in page.value("byId('token').textContent")


@needs_browser
def test_a_saved_picture_shows_all_runs(page: Browser) -> None:
    size = page.value("[pictureOf().width, byId('panes').clientWidth]")
    assert size[0] == pytest.approx(size[1], abs=1)
