"""Movies between stored frames: near frames are interpolated, far ones held."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from movie_data import (
    SHORT,
    WIDE,
    blow_up_on_line,
    draw_frame,
    gaussians,
    joined_text,
    pair_with_blow_up,
    softmax_sizes,
)
from numpy.random import Generator
from plotting_data import points, shrinking

from meanfield.plotting import Film, Look
from meanfield.plotting.cone.path_animation import animate_paths
from meanfield.plotting.movies.plays import movies
from meanfield.plotting.reading.data import Track, cloud
from meanfield.plotting.reading.pace import (
    interpolable_steps,
    interpolate_run,
    interpolate_sizes,
    snap_places,
)
from meanfield.plotting.tokens.moving import draw_ghosts
from meanfield.plotting.tokens.views import Window


@pytest.fixture
def pair() -> xr.Dataset:
    return pair_with_blow_up()


@pytest.mark.parametrize("spacing", [0.1, 0.05, 0.02])
def test_the_shown_size_belongs_to_the_shown_time(spacing: float) -> None:
    data = blow_up_on_line(np.arange(0.0, 0.2499, spacing))
    play = movies["tokens"].play(data, Film(seconds=4.0))
    for frame, t in enumerate(play.times[:-1]):
        radius = float(play.frame_notes(frame)[0].removeprefix("RMS radius "))
        # Half a unit of the third of three digits, as large as it is for 1.00.
        assert radius == pytest.approx(softmax_sizes(t), rel=5e-3)


def test_a_turning_cloud_keeps_the_shown_size() -> None:
    angle = 0.45 * np.arange(9.0)
    pair = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    data = points(np.stack([pair, -pair], axis=1))
    play = movies["tokens"].play(data, Film(seconds=4.0))
    assert np.unique(play.times).size > 9  # it moves between the frames
    assert {play.frame_notes(frame)[0] for frame in range(79)} == {"RMS radius 1.00"}


def test_interpolated_sizes_stay_between_their_frames() -> None:
    sizes = np.array([1.0, 1.1, 1.1, 1.3, 1e4, 0.0, 0.0])
    places = np.linspace(0.0, 6.0, 61)
    sizes_between = interpolate_sizes(sizes, places)
    assert (sizes_between[::10] == sizes).all()
    below, above = (
        sizes[np.floor(places).astype(int)],
        sizes[np.ceil(places).astype(int)],
    )
    assert (sizes_between >= np.minimum(below, above)).all()
    assert (sizes_between <= np.maximum(below, above)).all()
    growth = interpolate_sizes(np.exp(np.arange(4.0)), places[:31])
    assert np.allclose(growth, np.exp(places[:31]))


def test_a_turning_cloud_is_held_and_does_not_shrink() -> None:
    angle = np.array([0.0, 0.3, 2.0])
    pair = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    run = cloud(points(np.stack([pair, -pair], axis=1)))
    is_near = interpolable_steps(run)
    assert is_near.tolist() == [True, False]
    places = np.array([0.5, 1.0, 1.5, 1.9, 2.0])
    assert snap_places(places, is_near).tolist() == [0.5, 1.0, 1.0, 1.0, 2.0]


def test_time_series_break_where_interpolation_would_mislead() -> None:
    data = blow_up_on_line(np.array([0.0, 0.1, 0.2]))
    _, axes, texts = draw_frame(data, WIDE, Look(), frame=-1)
    assert "it goes on to" in joined_text(texts)
    assert "the view holds the cloud up to t = 0.2" in joined_text(texts)
    low, high = axes.get_xlim()
    assert low < 0.0 < 0.25 < high
    lines = [np.asarray(part.get_xydata()) for part in axes.lines]
    stars = [xy for xy in lines if len(xy) == 2 and (xy[:, 0] == 0.25).all()]
    assert stars  # a line at the time of the blow-up
    bands = [xy for xy in lines if np.isnan(xy[:, 0]).any()]
    assert len(bands) == 3
    for xy in bands:
        steps = np.diff(xy[:, 0])
        assert np.nanmax(steps) < 0.05  # nothing leads from 0.1 to 0.2, nor beyond
    points_drawn = next(
        xy
        for line_, xy in zip(axes.lines, lines, strict=True)
        if line_.get_marker() == "o"
    )
    assert {0.1, 0.2} <= set(points_drawn[:, 0])
    ends = points_drawn[points_drawn[:, 0] == 0.2, 1]
    assert np.allclose(np.unique(ends), 2 * softmax_sizes(0.2) * np.array([-1, 0, 1]))


def test_frames_at_a_break_are_marked_and_show_blow_ups() -> None:
    data = blow_up_on_line(np.array([0.0, 0.01, 0.1]))
    _, _, texts = draw_frame(data.isel(time=slice(0, 2)), WIDE, Look(), frame=-1)
    assert "stored frame" not in [text.get_text() for text in texts]
    _, axes, texts = draw_frame(data, WIDE, Look(), frame=-1)
    assert "stored frame" in [text.get_text() for text in texts]
    star = next(p for p in axes.lines if np.all(np.asarray(p.get_xdata()) == 0.25))
    bar = next(part for part in axes.lines if part.get_marker() == "_")
    assert star.get_zorder() > bar.get_zorder()


def test_between_near_frames_tokens_move_straight(rng: Generator) -> None:
    run = cloud(shrinking(rng, frames=4))
    places = np.array([0.0, 0.25, 1.0, 2.6, 3.0])
    states = interpolate_run(run, places)
    times = np.arange(4.0)
    assert np.allclose(states.times, np.interp(places, times, run.times))
    for token in range(3):
        path = np.interp(places, times, run.state[0][:, token, 1])
        assert np.allclose(states.state[0][:, token, 1], path)


def test_paths_march_through_the_cone_and_leave_at_its_rim(pair: xr.Dataset) -> None:
    march = animate_paths(pair, Film(fps=10, seconds=4.1), "cone")
    # All are held while the other moves far, until it leaves at time 2.
    times = np.linspace(0.0, 4.0, 41)
    times[:20] = np.floor(times[:20])
    assert np.allclose(march.times, times)
    trace = 1.25 * np.interp(times, range(5), [1.0, 1.1, 1.2, 1.3, 1.4])
    assert np.allclose(march.places[:, 0, 2], trace, rtol=1e-3)  # root and curve
    # The other is at trace 11.25 at time 2, over the height, and has gone at 2.5.
    assert np.allclose(march.places[:20, 1, 2], 1.25 * (1 + times[:20]))
    assert march.left.tolist() == [41, 20]
    assert np.allclose(march.places[20:, 1, 2], march.height)
    assert march.count(24) == ["blow-up: 0 of 2"]
    assert march.count(25) == ["blow-up: 1 of 2"]
    assert march.count(40) == ["finished: 1 of 2", "blow-up: 1 of 2"]


def turning(angles: np.ndarray) -> xr.Dataset:
    """A thin Gaussian, of standard deviations 1 and 0.05, at these angles."""
    cosine, sine = np.cos(angles), np.sin(angles)
    turns = np.stack([cosine, -sine, sine, cosine], axis=-1).reshape(-1, 2, 2)
    factor = (turns @ np.diag([1.0, 0.05]))[None]
    return gaussians(factor, [angles.size - 1.0], [0])


@pytest.mark.parametrize("panel", ["cone", "disc"])
def test_a_covariance_that_turns_far_is_held_with_its_time(panel: str) -> None:
    march = animate_paths(turning(np.pi / 2 * np.arange(4)), Film(seconds=3.0), panel)
    assert set(march.times) == {0.0, 1.0, 2.0, 3.0}
    # At (a - b, 2c) / trace = (±1, 0), but for the thin axis; never at the centre.
    place = march.places[:, 0, :2] / (1.0025 if panel == "cone" else 1.0)
    signs = np.where(march.times % 2 == 0, 1.0, -1.0)
    assert np.allclose(place, [[0.9975 / 1.0025, 0.0]] * signs[:, None], atol=1e-12)
    assert march.note == "4 stored frames, each held until the next; lines join them"


@pytest.mark.parametrize("panel", ["cone", "disc"])
def test_a_covariance_that_turns_little_stays_thin_on_the_way(panel: str) -> None:
    march = animate_paths(turning(0.4 * np.arange(4)), Film(seconds=3.0), panel)
    assert np.unique(march.times).size == march.times.size == 60
    shape = march.places[:, 0, :2]
    if panel == "cone":
        assert np.allclose(march.places[:, 0, 2], 1.0025)  # its trace stays, too
        shape = shape / march.places[:, 0, 2:]
    assert np.allclose(np.linalg.norm(shape, axis=1), 0.9975 / 1.0025)


def test_a_path_reaches_its_end_in_time_and_stays() -> None:
    sizes = np.array([[1.0, 1.1, 1.2, 1.2], [1.0, 1.05, 1.1, 1.15]])
    factor = np.sqrt(sizes)[..., None, None] * np.eye(2)
    march = animate_paths(
        gaussians(factor, [1.5, 3.0], [2, 0]), Film(seconds=3.05), "cone"
    )
    traces = march.places[:, 0, 2]
    assert np.allclose(traces[march.times >= 1.5], 2.4)
    assert (np.diff(traces[march.times <= 1.5]) > 0).all()


def test_the_ellipse_of_a_gaussian_that_turns_keeps_its_size() -> None:
    run = cloud(turning(0.4 * np.arange(4)).isel(run=0))
    track = interpolate_run(run, np.linspace(0.0, 3.0, 31)).state
    assert isinstance(track, Track)
    deviations = np.linalg.svd(track.factor, compute_uv=False)
    assert np.allclose(deviations, [1.0, 0.05])


def test_the_disc_interpolates_a_fixed_shape_of_changing_size() -> None:
    growing = turning(np.zeros(4))
    growing["factor"] = growing["factor"] * 10.0 ** growing["time"]
    march = animate_paths(growing, Film(seconds=3.0), "disc")
    assert march.note == "4 stored frames, straight lines between them"
    assert np.unique(march.times).size == 60


def test_arrows_of_leaving_paths_start_at_the_boundary(pair: xr.Dataset) -> None:
    march = animate_paths(pair, SHORT, "cone")
    stays, leaves = march.arrows()
    assert np.isnan(stays).all()
    assert leaves[0, 2] == pytest.approx(march.height)
    assert leaves[1, 2] > leaves[0, 2]


def test_a_gaussian_leaves_its_past_ellipses_behind(pair: xr.Dataset) -> None:
    track = cloud(pair.isel(run=0)).state
    assert isinstance(track, Track)
    axes = Figure().add_subplot()
    show, _ = draw_ghosts(axes, track, 3)
    show(4, Window(np.zeros(2), 10.0, ""))
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    widths = [np.ptp(np.asarray(path)[:, 0]) for path in lines.get_segments()]
    # Two standard deviations either way, at the frames 1, 2 and 3.
    assert np.allclose(widths, 4 * np.sqrt([1.1, 1.2, 1.3]), rtol=1e-3)
    shades = np.asarray(lines.get_edgecolor())[:3, 3]
    assert (np.diff(shades) > 0).all()
    show_none, _ = draw_ghosts(axes, track, 0)
    show_none(4, Window(np.zeros(2), 10.0, ""))
    assert len(axes.collections[-1].get_paths()) == 0
