"""Colours, links and labels of tokens follow the style."""

from pathlib import Path

import density_data
import matplotlib as mpl
import numpy as np
import pytest
from figure_contents import legend_entries, lightness
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.random import Generator
from plotting_data import moving_gaussian, points, shrinking, sweep

from meanfield.clusters import component_labels
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import Film, Look, Panel, animate, panels
from meanfield.plotting._figure.look import OPTIONS
from meanfield.plotting._figure.options import options_of
from meanfield.plotting.movies.plays import movies

ATTENTION_DIMS = ("snapshot", "head", "query", "token")
SHARES = np.random.default_rng(4).dirichlet(np.ones(4), (1, 2, 4))
# A picture of each panel that has a scale of colours.
SCALES = {
    "tokens": lambda rng: shrinking(rng),
    "spectrum": lambda rng: shrinking(rng, n=30, d=12),
    "density": lambda rng: density_data.gaussian_in_plane(),
    "phase": lambda rng: sweep(["finished", "blow-up", "steady"], [2.0, 1.0, 1.5]),
    "attention": lambda rng: shrinking(rng, n=4).assign(
        attention=(ATTENTION_DIMS, SHARES), snapshot=("snapshot", [0.0])
    ),
}


def ends(figure: Figure) -> np.ndarray:
    """The colours of the final tokens, (n, 3)."""
    dots = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    return np.asarray(dots[1].get_facecolor())[:, :3]


@pytest.mark.parametrize("colour", ["norm", "start"])
def test_tokens_are_coloured_in_the_order_of_a_number(
    rng: Generator, colour: str
) -> None:
    run = shrinking(rng)
    colours = ends(panels["tokens"](run, Look(colour=colour)))
    x = run["x"].values
    number = {"norm": np.linalg.norm(x[-1], axis=1), "start": x[0, :, 0]}[colour]
    light = np.array([lightness(shade) for shade in colours[np.argsort(number)]])
    assert np.all(np.diff(light) >= -1e-3)  # viridis, to the rounding of 256 shades
    assert light[-1] > 5 * light[0]


def test_labels_have_a_colour_each_and_the_rest_is_grey(rng: Generator) -> None:
    run = shrinking(rng, n=40)
    words = np.array([*("a" * 20), *("b" * 12), *"cdefghij"])
    figure = panels["tokens"](run.assign_coords(word=("token", words)), Look())
    assert "b" not in dict(legend_entries(figure))
    look = Look(colour="label")
    figure = panels["tokens"](run.assign_coords(word=("token", words)), look)
    names = [name for name, _ in legend_entries(figure) if len(name) == 1]
    assert set(names) >= {"a", "b"}
    colours = ends(figure)
    assert len(np.unique(colours[:20], axis=0)) == 1
    assert np.abs(colours[0] - colours[20]).max() > 0.1


@pytest.mark.parametrize("colour", [None, "norm", "cluster"])
def test_legend_colours_of_clusters_occur_in_the_picture(
    rng: Generator, colour: str | None
) -> None:
    figure = panels["tokens"](shrinking(rng), Look(colour=colour, style="dark"))
    entry = dict(legend_entries(figure))["end"]
    assert isinstance(entry, Line2D)
    for face in (entry.get_markerfacecolor(), entry.get_markerfacecoloralt()):
        gaps = np.abs(ends(figure) - to_rgb(face)).max(axis=1)
        assert gaps.min() < 0.01


def test_clusters_too_many_to_name_share_an_entry() -> None:
    x = np.array([[0, 0], [0.01, 0], [9, 0], [0, 9], [9, 9], [5, 5], [2, 7]])
    run = points(np.stack([x, x]))
    look = Look(colour="cluster")
    names = [name for name, _ in legend_entries(panels["tokens"](run, look))]
    assert names.count("cluster, 14.3 % of weight") == 5  # six have a colour each
    states = np.concatenate([x, x[2:] + 30, x[2:] - 30])
    run = points(np.stack([states, states]))
    names = [name for name, _ in legend_entries(panels["tokens"](run, look))]
    single_clusters = ["cluster, 5.88 % of weight"] * 2
    clusters = sorted(name for name in names if "weight" in name)
    assert clusters == [
        "13 more, 76.5 % of weight",
        "cluster, 11.8 % of weight",
        *single_clusters,
    ]
    words = run.assign_coords(word=("token", [f"w{i}" for i in range(17)]))
    names = [name for name, _ in legend_entries(panels["tokens"](words, look))]
    assert {"cluster, 11.8 % of weight", "w2", "w3"} < set(names)


def test_invalid_colours_are_rejected(rng: Generator) -> None:
    invalid_colours = {
        "label": "`colour label` needs a label for each token",
        "position": "needs tokens with an order",
        "size": "no colouring of tokens `size`; known: start, norm",
    }
    for colour, message in invalid_colours.items():
        with pytest.raises((InvalidInputError, UnknownNameError), match=message):
            panels["tokens"](shrinking(rng), Look(colour=colour))
    for idle in (Look(colour="norm"), Look(link=0.2)):
        with pytest.raises(InvalidInputError, match="this run has a Gaussian"):
            panels["tokens"](moving_gaussian(rng), idle)


def test_a_link_length_joins_near_tokens(rng: Generator) -> None:
    x = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])  # an RMS radius of 2.16
    run = points(np.stack([x, x]))
    counts = [
        panels["clusters"](run, Look(link=link)).axes[0].lines[0].get_ydata()
        for link in (0.4, 0.5, 2.0)
    ]
    np.testing.assert_array_equal(counts, [[3, 3], [2, 2], [1, 1]])


def test_a_chosen_link_length_shows_its_clusters(rng: Generator) -> None:
    x = rng.normal(size=(9, 2))
    run = points(np.stack([x, x]))
    legend = panels["tokens"](run, Look(link=1e-6)).axes[0].get_legend()
    assert legend is not None
    assert "cluster, 11.1 % of weight" in {
        text.get_text() for text in legend.get_texts()
    }
    with pytest.raises(InvalidInputError, match="which `colour norm` does not show"):
        panels["tokens"](run, Look(link=0.2, colour="norm"))


@pytest.mark.parametrize("look", [Look(), Look(width=13.3, height=7.5)])
def test_labels_are_at_their_tokens_and_do_not_overlap(
    look: Look, rng: Generator
) -> None:
    still = points(rng.normal(size=(1, 90, 2)))
    run = still.assign_coords(word=("token", ["word"] * 90))
    figure = panels["tokens"](run, look)
    figure.draw_without_rendering()
    texts = [text for text in figure.axes[0].texts if text.get_text() == "word"]
    boxes = [text.get_window_extent() for text in texts]
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert 20 <= len(texts) < 90
    assert f"{len(texts)} of 90 words have room" in figure.get_supxlabel()
    assert not any(a.overlaps(b) for a, b in pairs)
    tokens = run["x"].values[-1]
    for text in texts:
        place = np.array(text.xy)  # pyright: ignore[reportAttributeAccessIssue]
        assert np.abs(tokens - place).max(axis=1).min() < 1e-12


def test_endings_are_distinguishable_in_the_dark_theme() -> None:
    inks = Look(style="dark").inks
    colours = {inks.get(s.row.colour.lower(), s.row.colour.lower()) for s in Status}
    assert len(colours) == len(Status)


def maps_in(figure: Figure) -> set[str]:
    """The names of the colour maps in use."""
    parts = [part for axes in figure.axes for part in (*axes.collections, *axes.images)]
    scaled = [part for part in parts if not isinstance(part, ContourSet)]
    return {part.get_cmap().name for part in scaled if part.get_array() is not None}


@pytest.mark.parametrize("style", ["paper", "dark"])
@pytest.mark.parametrize("name", SCALES)
def test_every_scale_has_the_colour_map_that_is_chosen(
    name: str, style: str, rng: Generator
) -> None:
    data = SCALES[name](rng)
    assert maps_in(panels[name](data, Look(style=style))) != {"cividis"}
    assert maps_in(panels[name](data, Look(style=style, cmap="cividis"))) == {"cividis"}


def test_tokens_and_lines_have_colours_of_the_map_that_is_chosen(
    rng: Generator,
) -> None:
    shades = mpl.colormaps["cividis"](np.linspace(0, 1, 256))[:, :3]
    tokens = panels["tokens"](shrinking(rng), Look(cmap="cividis", colour="norm"))
    cells = sweep(["finished"] * 3, [2.0, 1.0, 1.5])
    lines = panels["lines"](cells, Look(cmap="cividis", x="cov"))
    colours = [to_rgb(line.get_color()) for line in lines.axes[0].lines]
    for colour in (*ends(tokens), *colours):
        assert np.abs(shades - colour).max(axis=1).min() < 1 / 254


def test_signed_weights_have_the_map_that_is_chosen(rng: Generator) -> None:
    data = SCALES["attention"](rng)
    signed_data = data.assign(attention=data["attention"] - 0.2)
    assert maps_in(panels["attention"](signed_data)) == {"PuOr"}
    assert maps_in(panels["attention"](signed_data, Look(cmap="RdBu"))) == {"RdBu"}


def test_an_unknown_colour_map_is_rejected_with_suggestions() -> None:
    with pytest.raises(UnknownNameError, match="`Virids`; use one such as `viridis`"):
        Look(cmap="Virids")
    with pytest.raises(UnknownNameError, match="such as viridis, cividis or magma"):
        Look(cmap="????????")


def test_a_movie_takes_a_colour_map_where_it_has_a_scale(
    rng: Generator, tmp_path: Path
) -> None:
    film, look = Film(fps=5, seconds=0.4, size=(240, 250)), Look(cmap="gray")
    plane = density_data.gaussian_in_plane()
    files = [
        animate(plane, tmp_path / f"{i}.gif", look=style, film=film).read_bytes()
        for i, style in enumerate((look, Look()))
    ]
    assert files[0] != files[1]
    with pytest.raises(InvalidInputError, match="`cmap` is for movies of tokens, den"):
        animate(moving_gaussian(rng), tmp_path / "a.gif", panel="cone", look=look)


def test_every_style_option_has_help_and_valid_targets() -> None:
    for name, (option, _, _) in (OPTIONS | options_of(Film)).items():
        assert option.help or option.negation_help
        assert set(option.movies or ()) <= set(movies)
        takers = {n for n, p in panels.items() if isinstance(p, Panel)}
        assert set(option.panels or ()) <= takers, name
    assert "cmap: matplotlib colour map" in str(Look.__doc__)


@pytest.mark.parametrize(("width", "expected"), [(1.5, "time"), (0.1, "cluster")])
def test_arcs_of_a_ring_are_no_clusters(width: float, expected: str) -> None:
    """Three arcs with gaps; the short ones are clusters, the long ones are not."""
    angles = np.concatenate([c + np.linspace(-width, width, 40) / 2 for c in (0, 2, 4)])
    last = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    x = np.stack([0.9 * last[::-1], last])
    assert len(np.unique(component_labels(last, 0.05))) == 3
    figure = panels["tokens"](points(x))
    names = [name for name, _ in legend_entries(figure)]
    assert any("cluster" in name for name in names) == (expected == "cluster")
