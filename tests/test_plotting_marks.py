"""Colours, marks and crops of single panels."""

import re
from functools import partial
from pathlib import Path

import density_data
import numpy as np
import pytest
import xarray as xr
from comparison_data import comparison
from figure_contents import colours_in_axes, legend_entries, texts_beyond_axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.random import Generator
from plotting_data import points, sweep
from test_plotting_cone import escaping_to

import meanfield.plotting
from meanfield.endings import Status
from meanfield.plotting import Look, panels
from meanfield.plotting._figure.panels import annotate
from meanfield.plotting._figure.style import (
    CLOSURE_COLOUR,
    CYCLE,
    GREY,
    density_map,
    style,
)
from meanfield.plotting.cone.disc import (
    _ROOM,  # pyright: ignore[reportPrivateUsage]
    _ring,  # pyright: ignore[reportPrivateUsage]
    frame_disc,
)
from meanfield.plotting.reading.description import description
from meanfield.reproduce import Findings, load, names
from meanfield.storage import ENDING_FLAGS


def test_final_clusters_match_all_dimensions(rng: Generator) -> None:
    """Two squares of 50 × 50 tokens each, which coincide in the main plane."""
    side = np.stack(np.meshgrid(*[np.linspace(0, 1, 50)] * 2), -1).reshape(-1, 2)
    x = np.zeros((5000, 4))
    x[:, :2], x[2500:, 3] = np.tile(side, (2, 1)), 0.5
    figure = panels["tokens"](points(np.stack([x, x])), Look(colour="cluster"))
    names = [name for name, _ in legend_entries(figure)]
    assert names.count("cluster, 50 % of weight") == 2
    assert "colours: final clusters" in figure.get_supxlabel()


@pytest.mark.parametrize("status", ["finished", "escape"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_final_states_of_staying_tokens_are_in_view(
    rng: Generator, status: str, d: int
) -> None:
    x = rng.normal(size=(10, d)) * np.logspace(0, 3, 6)[:, None, None]
    run = points(x, status=Status.from_name(status))
    run["status"].attrs = dict(ENDING_FLAGS)
    figure = panels["tokens"](run)
    axes = figure.axes[0]
    limits = [axes.get_ylim()] if d == 1 else [axes.get_xlim(), axes.get_ylim()]
    for (low, high), end in zip(limits, x[-1].T, strict=False):
        assert low < end.min() < end.max() < high
    assert "the RMS radius of the cloud grows from" in figure.get_supxlabel()
    assert "cropped" not in figure.get_supxlabel()


def counts_of(figure: Figure) -> np.ndarray:
    return np.asarray(figure.axes[0].lines[0].get_ydata(), dtype=float)


def test_clusters_do_not_depend_on_the_size_to_which_a_cloud_grows(
    rng: Generator,
) -> None:
    x = np.repeat(rng.normal(size=(5, 2)), 8, axis=0) + 1e-3 * rng.normal(size=(40, 2))
    states = x * np.logspace(0, 4, 6)[:, None, None]
    np.testing.assert_array_equal(counts_of(panels["clusters"](points(states))), 5)


def test_clusters_of_a_growing_cloud_are_visible(rng: Generator) -> None:
    """As in a transformer: far apart at first, then four clusters, 20 times as far."""
    heap = np.repeat(rng.normal(size=(4, 300)), 10, axis=0)
    x = np.stack([rng.normal(size=(40, 300)), 20 * (heap + 0.05 * rng.normal())])
    noise = 0.05 * 20 * rng.normal(size=(40, 300))
    x[1] += noise
    np.testing.assert_array_equal(counts_of(panels["clusters"](points(x))), [40, 4])


def test_every_ending_has_its_own_style() -> None:
    for look in ("colour", "marker", "hatch"):
        assert len({getattr(status.row, look) for status in Status}) == len(Status)
    folder = Path(meanfield.plotting.__file__).parent / "pages"
    painter = (folder / "cone.js").read_text(encoding="utf-8")
    outlines = painter.partition("const corners = {")[2].partition("}[name]")[0]
    endings = set(re.findall(r'^\s*"?([^\s"]+?)"?: \[', outlines, re.MULTILINE))
    assert endings == {status.row.marker for status in Status} - {
        "o"
    }  # the disc needs no corners


def test_censored_cells_are_not_labelled_finished() -> None:
    for times, expected in ((2.0, "t = 2"), ([1.0, 2.0, 2.0], "the end")):
        data = sweep(["finished", "finished", "blow-up"], times)
        for dataset in (data, data.isel(cov=0)):
            actual = [name for name, _ in legend_entries(panels["phase"](dataset))]
            per_cell = 2 if dataset is data else 1
            alive = f"no blow-up before {expected} ({2 * per_cell})"
            assert actual == [alive, f"blow-up ({per_cell})"]
    calm_panel = panels["phase"](sweep(["finished", "steady"]))
    assert [name for name, _ in legend_entries(calm_panel)] == [
        "finished at t = 2 (2)",
        "steady (2)",
    ]


def test_a_curve_of_blow_up_times_has_arrows_where_it_is_censored() -> None:
    endings = ["steady", "max-steps", "blow-up", "blow-up"]
    data = sweep(endings, [1.5, 2.0, 1.0, 1.2]).isel(cov=0)
    figure = panels["phase"](data)
    lines = figure.axes[0].lines
    arrows = [line for line in lines if line.get_marker() == r"$\uparrow$"]
    times_drawn = np.concatenate(
        [np.asarray(line.get_ydata(), float) for line in arrows]
    )
    assert 1.5 in times_drawn
    assert 2.0 not in times_drawn
    assert "arrows: no blow-up before this time" in figure.get_supxlabel()
    assert "foot: no such number" in figure.get_supxlabel()  # of the second cell


def test_a_single_blow_up_is_drawn_by_its_time() -> None:
    figure = panels["phase"](sweep(["finished", "blow-up"], [2.0, 1.0]).isel(cov=0))
    assert "$t^{*}$" in figure.axes[0].get_ylabel()
    assert "arrows: no blow-up before this time" in figure.get_supxlabel()
    two_blow_ups = panels["phase"](
        sweep(["blow-up", "blow-up"], [1.0, 1.0]).isel(cov=0)
    )
    assert "$t^*$" not in two_blow_ups.axes[0].get_ylabel()  # it is the same in all


def test_zero_density_has_no_colour() -> None:
    colours = density_map(Look())
    white, shades = (1, 1, 1, 1), colours(np.linspace(0, 1, 256))
    for nothing in (0.0, -1.0, np.nan, np.ma.masked_array([0.5], [True])):
        assert tuple(colours(np.ma.atleast_1d(nothing))[0]) == white
    light = shades[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(light) < 0)
    run = density_data.gaussian_on_line(np.ones(3))
    far = run.assign(mass=run["mass"].where(run["cell_x"] > 20, 0.0))
    axes = panels["density"](far).axes[0]
    mesh = axes.collections[0]
    corner = mesh.to_rgba(np.asarray(mesh.get_array()).reshape(3, -1)[:, 0])
    np.testing.assert_array_equal(corner, [white] * 3)
    assert to_rgb(axes.get_facecolor()) == white[:3]


def test_figures_are_labelled_with_their_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    return_attrs = lambda family: family.attrs
    fake_panels = {"cone": return_attrs, "disc": return_attrs}
    monkeypatch.setattr("experiments.covariances.figures.panels", fake_panels)
    family = xr.Dataset(attrs={"spec": {}})
    count = 0
    for name in names():
        experiment, number = load(name), re.fullmatch(r"(\w+)-fig(\d)(\w?)", name)
        if number is None:
            continue
        paper, figure, panel = number.groups()
        label = f"Figure {figure}({panel})" if panel else f"Figure {figure}"
        assert experiment.source.startswith(f"{paper}, {label}")
        draw = experiment.draw
        if isinstance(draw, partial) and "covariances.figures" in draw.func.__module__:
            attrs = draw(Findings({}, {"reading": "code"}, {"family": family}))
            assert attrs["title"].startswith(f"{label}, ")
            assert description(family.assign_attrs(attrs)) == ""  # the caption says it
            count += 1
    assert count == 19


@style()
def test_the_number_beside_a_ring_is_off_the_axes() -> None:
    figure = Figure(figsize=(5.6, 6.2), layout="constrained")
    axes = figure.add_subplot()
    frame_disc(axes, _ROOM)
    for angle in np.linspace(0, 2 * np.pi, 24, endpoint=False):
        _ring(axes, np.array([np.cos(angle), np.sin(angle)]), 12345)
    axes.set_title("as high as the legend of the panel")
    annotate(figure, "three", "small", "prints")
    assert texts_beyond_axes(figure) == []


def test_the_disc_marks_paths_that_stop_short_or_leave() -> None:
    rng = np.random.default_rng(3)
    run = escaping_to([0.0] * 12 + [2.0], rng)
    stops = np.full(13, 1.0)
    stops[4] = 1.25  # a quarter after the last frame
    figure = panels["disc"](run.assign(stop_time=("run", stops)))
    small = figure.get_supxlabel()
    assert "1 of 13 blow-ups end outside the rings" in small
    assert "1 path stops at its last frame, 0.25 before its blow-up" in small
    plain = panels["disc"](escaping_to([0.0] * 12, rng)).get_supxlabel()
    assert plain == "centre: isotropic; rim: rank one"


def test_pairs_and_representations_have_different_colours() -> None:
    figure = comparison()
    figure.draw_without_rendering()
    gaps, states = (
        {c for a in part.axes for c in colours_in_axes(a)} for part in figure.subfigs
    )
    assert {to_hex(CYCLE[0]), to_hex(CLOSURE_COLOUR), to_hex(GREY)} <= states
    assert len(gaps) == 3
    assert gaps.isdisjoint(states)


def test_coinciding_pairs_are_both_visible() -> None:
    """A narrower line is drawn over a wider one."""
    for axes in comparison().subfigs[0].axes:
        widths = [line.get_linewidth() for line in axes.lines]
        assert widths == sorted(widths, reverse=True)
        assert len(set(widths)) == 3
