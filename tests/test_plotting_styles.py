"""Every panel accepts a style option or rejects it by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import density_data
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from figure_contents import drawn_colours, lightness
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.random import Generator
from PIL import Image
from plotting_data import SPEC, ensemble, moving_gaussian, points, shrinking, sweep
from test_plotting_accuracy import DENSITY_WITH_OUTFLOW, add_closure, add_energy, heaps

from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import (
    Look,
    Panel,
    covariances,
    limits_of,
    panels,
    relative,
    save,
)
from meanfield.plotting import width_of as width
from meanfield.plotting.reading.observables import rounded_spectrum
from meanfield.storage._schema import density

RNG = np.random.default_rng(9)
MAPS = shrinking(RNG, n=4).assign(
    attention=(
        ("snapshot", "head", "query", "token"),
        RNG.dirichlet(np.ones(4), (2, 2, 4)),
    ),
    snapshot=("snapshot", [0.0, 1.0]),
)
DATA: Mapping[str, xr.Dataset] = {
    "tokens": add_closure(shrinking(RNG)),
    "clusters": shrinking(RNG),
    "spectrum": shrinking(RNG, d=3),
    "energy": add_energy(shrinking(RNG)),
    "balance": DENSITY_WITH_OUTFLOW,
    "density": density_data.gaussian_in_plane(),
    "cone": ensemble(RNG, "gaussian"),
    "disc": ensemble(RNG, "gaussian"),
    "phase": sweep(["finished", "blow-up", "steady"], [2.0, 1.0, 1.5]),
    "attention": MAPS,
    "lines": sweep(["finished", "blow-up", "steady"], [2.0, 1.0, 1.5]),
}
OTHER_DATASETS: Mapping[str, tuple[str, xr.Dataset]] = {
    "tokens on the line": ("tokens", shrinking(RNG, d=1)),
    "tokens in space": ("tokens", shrinking(RNG, d=3)),
    "tokens in heaps": ("tokens", heaps()),
    "gaussian": ("tokens", moving_gaussian(RNG)),
    "runs": ("tokens", ensemble(RNG, "points")),
    "density on the line": ("density", density_data.add_tokens(DENSITY_WITH_OUTFLOW)),
    "curve": ("phase", sweep(["finished", "blow-up"]).isel(cov=0)),
}
CHOICES: Mapping[str, Any] = {
    "xlim": (0.5, 1.5),
    "ylim": (0.5, 1.5),
    "relative": True,
    "link": 0.2,
    "metric": "cosine",
    "colour": {"phase": "stop_time", "lines": "stop_time"},
    "cmap": "cividis",
    "x": "cov",
    "heads": (1,),
    "query": "1",
}


def look_for(name: str, choice: str) -> Look:
    value = CHOICES[choice]
    return Look(**{choice: value.get(name, "norm") if choice == "colour" else value})


def takes(name: str, choice: str) -> bool:
    panel = panels[name]
    assert isinstance(panel, Panel)
    return choice in panel.takes


PAIRS = [(name, choice) for name in DATA for choice in CHOICES]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_panel_names_the_panels_that_accept_a_style_option(choice: str) -> None:
    takers = [name for name in DATA if takes(name, choice)]
    assert takers
    for name in DATA.keys() - takers:
        with pytest.raises(InvalidInputError) as error_info:
            panels[name](DATA[name], look_for(name, choice))
        message = str(error_info.value)
        head = f"`{choice}` does nothing in the panel `{name}`; it works in"
        assert message.startswith(head)
        assert all(f"`{taker}`" in message for taker in takers)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "choice"), [p for p in PAIRS if takes(*p)])
def test_a_panel_applies_its_style_options(name: str, choice: str) -> None:
    figure = panels[name](DATA[name], look_for(name, choice))
    figure.draw_without_rendering()
    if choice in ("xlim", "ylim"):
        axes = next(axes for axes in figure.axes if axes.axison)
        limits = getattr(axes, f"get_{choice}")()
        np.testing.assert_allclose(limits, CHOICES[choice])


def page_of(figure: Figure) -> tuple[np.ndarray, np.ndarray]:
    """Extents of the drawing and of the page, both in inches."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    return np.array([box.min, box.max]), np.array([[0, 0], figure.get_size_inches()])


PICTURES = {name: (name, data) for name, data in DATA.items()} | OTHER_DATASETS


QUICK_PANELS = {"tokens", "phase"}
ALL_PANELS = [
    pytest.param(name, marks=[] if name in QUICK_PANELS else pytest.mark.slow)
    for name in PICTURES
]


@pytest.mark.parametrize("style", ["paper", "talk"])
@pytest.mark.parametrize("name", ALL_PANELS)
def test_a_one_column_picture_is_not_cut(name: str, style: str) -> None:
    panel, data = PICTURES[name]
    spec = {**SPEC, "mask": "causal"} if "layer" in data.dims else SPEC
    look = Look(width=width("1" if style == "paper" else "2"), style=style)
    figure = panels[panel](data.assign_attrs(spec=spec), look)
    extent, page = page_of(figure)
    assert page[1, 0] == pytest.approx((86 if style == "paper" else 178) / 25.4)
    assert np.all(extent[0] >= page[0] - 0.02)
    assert np.all(extent[1] <= page[1] + 0.02)


def test_the_width_is_the_width_of_the_file(rng: Generator, tmp_path: Path) -> None:
    figure = panels["disc"](shrinking(rng), Look(width=width("85mm")))
    pdf, png = save(figure, tmp_path / "a")
    box = pdf.read_bytes().split(b"/MediaBox [")[1].split(b"]")[0].split()
    assert float(box[2]) == pytest.approx(72 * 85 / 25.4, abs=0.01)
    with Image.open(png) as image:
        assert image.width == pytest.approx(220 * 85 / 25.4, abs=1)


@pytest.mark.parametrize(
    ("text", "inches"),
    [("1", 86 / 25.4), ("2", 178 / 25.4), ("3.4in", 3.4), ("8.5 cm", 8.5 / 2.54)],
)
def test_widths_are_columns_or_lengths(text: str, inches: float) -> None:
    assert width(text) == pytest.approx(inches)


def test_invalid_style_options_are_rejected_in_one_line() -> None:
    invalid_options = {
        "`width` must be a length such as": lambda: width("3"),
        "got `1.2.3cm`": lambda: width("1.2.3cm"),
        "`xlim` must be two numbers, such as": lambda: limits_of("xlim", "1"),
        "`ylim` must be two increasing numbers": lambda: Look(ylim=(2.0, 1.0)),
        "such as 0,2.5; got nan,1": lambda: Look(xlim=(np.nan, 1.0)),
        "`width` must be above 1 and below 40 inches": lambda: Look(width=0.1),
        "`fontsize` must be above 3 and below 72": lambda: Look(fontsize=100.0),
        "`link` must be above 0": lambda: Look(link=-1.0),
        "below 2 of 1 - cosine; got 2.5": lambda: Look(link=2.5, metric="cosine"),
        "no style `drak`; did you mean `dark`": lambda: Look(style="drak"),
    }
    for message, arguments in invalid_options.items():
        with pytest.raises((InvalidInputError, UnknownNameError)) as error_info:
            arguments()
        assert message in str(error_info.value)
        assert "\n" not in str(error_info.value)
    steep = points(RNG.normal(size=(9, 2)) * np.logspace(0, -9, 5)[:, None, None])
    with pytest.raises(InvalidInputError, match="`ylim` must be above 0, because"):
        panels["spectrum"](steep, Look(ylim=(0.0, 1.0)))


def test_a_title_is_replaced_or_left_out(rng: Generator) -> None:
    run = shrinking(rng)
    for look, expected in ((Look(), "cost: $5"), (Look(title="New"), "New")):
        assert panels["tokens"](run, look).get_suptitle() == expected
    assert panels["tokens"](run, Look(title="")).get_suptitle() == ""


def test_all_text_follows_the_size_of_labels(rng: Generator) -> None:
    run = shrinking(rng).assign_attrs(spec=SPEC)

    def sizes(look: Look) -> np.ndarray:
        figure = panels["tokens"](run, look)
        figure.draw_without_rendering()
        return np.array([t.get_fontsize() for t in figure.findobj(Text)])

    plain, large = sizes(Look()), sizes(Look(fontsize=22.0))
    np.testing.assert_allclose(np.unique(large), 2 * np.unique(plain))


def test_text_grows_with_a_width_beyond_that_of_a_page() -> None:
    points_of = lambda style, inches: Look(style=style, width=inches).points
    assert points_of("paper", 3.4) == points_of("paper", 7.0) == 8.0
    assert points_of("dark", 14.0) == 16.0
    assert points_of("talk", 7.0) == points_of("talk", 10.0) == 15.0
    assert points_of("talk", 13.0) == pytest.approx(19.5)
    assert points_of("dark-talk", 13.0) == points_of("talk", 13.0)


def test_dark_talk_combines_dark_colours_and_talk_sizes(rng: Generator) -> None:
    run = shrinking(rng)
    dark, talk, dark_talk = (
        panels["tokens"](run, Look(style=style))
        for style in ("dark", "talk", "dark-talk")
    )
    assert dark_talk.get_facecolor() == dark.get_facecolor() != talk.get_facecolor()
    sizes = [[t.get_fontsize() for t in f.findobj(Text)] for f in (talk, dark_talk)]
    assert sizes[0] == sizes[1]
    lines = [
        [line.get_color() for line in f.findobj(Line2D)] for f in (dark, dark_talk)
    ]
    assert lines[0] == lines[1]


def test_a_square_stands_beside_its_legend_on_a_slide(
    rng: Generator,
) -> None:
    figure = panels["tokens"](shrinking(rng), Look(width=13.3, height=7.5))
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    left = min(box.x0 for box in boxes if box is not None)
    right = max(box.x1 for box in boxes if box is not None)
    (legend,) = (legend.get_window_extent() for legend in figure.legends)
    assert right < legend.x0 < legend.x1 < figure.bbox.width
    middle = (left + right) / 2 / figure.bbox.width
    assert middle == pytest.approx(0.5, abs=0.05)
    assert figure.axes[0].bbox.height > 0.6 * figure.bbox.height


@pytest.mark.parametrize("name", ALL_PANELS)
def test_text_is_legible_in_the_dark_theme(name: str) -> None:
    panel, data = PICTURES[name]
    figure = panels[panel](data, Look(style="dark"))
    figure.draw_without_rendering()
    ground = lightness(figure.get_facecolor())
    assert ground < 0.02
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible():
            contrast = (lightness(text.get_color()) + 0.05) / (ground + 0.05)
            assert contrast > 4.5, text.get_text()
    assert "#222222" not in drawn_colours(figure)
    for axes in figure.axes:
        assert not axes.axison or lightness(axes.get_facecolor()) < 0.02


def test_paths_are_visible_from_the_start_in_the_dark_theme(rng: Generator) -> None:
    figure = panels["tokens"](shrinking(rng, n=900, d=2), Look(style="dark"))
    ground = np.array(to_rgb(figure.get_facecolor()))
    paths = figure.axes[0].collections[0].get_edgecolor()
    first = np.asarray(paths)[0]
    mixed = first[3] * first[:3] + (1 - first[3]) * ground  # one path, by itself
    contrast = (lightness(tuple(mixed)) + 0.05) / (lightness(tuple(ground)) + 0.05)
    assert contrast > 1.8  # 1.07 with the violet of the whole map, and few let through


def test_a_style_does_not_change_user_settings(rng: Generator, tmp_path: Path) -> None:
    with mpl.rc_context({"font.size": 3.0}):
        before = dict(mpl.rcParams)
        save(panels["disc"](shrinking(rng), Look(style="dark")), tmp_path / "a.png")
        assert dict(mpl.rcParams) == before


def test_saved_pictures_keep_the_dark_background(
    rng: Generator, tmp_path: Path
) -> None:
    figure = panels["tokens"](shrinking(rng, d=1), Look(style="dark"))
    (file,) = save(figure, tmp_path / "a.png")
    with Image.open(file) as image:
        shades = np.asarray(image.convert("L"), dtype=float)
    assert np.median(shades) < 40
    assert (shades > 150).mean() > 1e-3


@pytest.mark.parametrize("name", ["points", "gaussian", "grid", "runs"])
def test_relative_runs_have_mean_zero_and_radius_one(name: str) -> None:
    run = {
        "points": shrinking(RNG, d=3),
        "gaussian": moving_gaussian(RNG),
        "grid": density_data.gaussian_in_plane(),
        "runs": ensemble(RNG, "points"),
    }[name]
    if name == "grid":
        relative_run = relative(run.assign(density(run)))
        np.testing.assert_allclose(
            relative_run["density"], density(relative_run)["density"]
        )
    traces = np.trace(covariances(relative(run)), axis1=-2, axis2=-1)
    np.testing.assert_allclose(traces[np.isfinite(traces)], 1.0, rtol=1e-12)
    if name == "points":
        x, w = relative(run)["x"].values, run["weight"].values
        np.testing.assert_allclose(w @ x, 0.0, atol=1e-13)
        lengths = np.linalg.norm(run["x"].diff("token").values, axis=-1)
        scaled = np.linalg.norm(np.diff(x, axis=1), axis=-1)
        ratios = lengths / scaled  # one number for each frame: shapes are kept
        np.testing.assert_allclose(ratios, ratios[:, :1] * np.ones_like(ratios))


def test_rounding_is_recognised_in_relative_units(rng: Generator) -> None:
    """Tokens on a line far from the origin: the other axis holds only rounding."""
    x = np.stack([rng.normal(size=(5, 30)), np.full((5, 30), 1e6)], axis=-1)
    x[..., 1] += 1e-9 * rng.normal(size=(5, 30))
    far = points(x)
    for run in (far, relative(far)):
        assert (rounded_spectrum(run) > 0).sum(axis=-1).tolist() == [1] * 5


def test_a_relative_picture_is_labelled(rng: Generator) -> None:
    figure = panels["tokens"](shrinking(rng), Look(relative=True))
    assert "relative to the cloud: its mean at 0" in figure.get_supxlabel()


@pytest.mark.parametrize("style", ["dark", "talk"])
def test_a_gaussian_in_space_is_drawn_in_every_style(style: str) -> None:
    """Also if some of its means are out of view."""
    run = moving_gaussian(np.random.default_rng(3), d=3)
    figure = panels["tokens"](run, Look(style=style))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert len([*axes.lines, *axes.collections]) > 1
    paper = "#14171a" if style == "dark" else "#ffffff"
    assert to_rgb(figure.get_facecolor()) == to_rgb(paper)
