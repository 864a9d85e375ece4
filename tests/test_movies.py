"""Movies: what is between stored frames, where words stand, how a cone fills."""

from inspect import signature
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from density_data import line
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text
from mpl_toolkits.mplot3d import Axes3D
from numpy.random import Generator
from PIL import Image, ImageSequence
from plotting_data import ensemble, gaussian, points, shrinking

from meanfield.cli.commands.animate import animate as command
from meanfield.cli.commands.animate import movie_names
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import Film, Look, animate
from meanfield.plotting._figure.style import CYCLE
from meanfield.plotting._runs.data import Track, cloud
from meanfield.plotting.cone.march import marched
from meanfield.plotting.movies.headline import layers_shown, size_note
from meanfield.plotting.movies.pace import between, frames_shown, held, near_steps
from meanfield.plotting.movies.painter import Painter
from meanfield.plotting.movies.plays import movies, suited
from meanfield.plotting.movies.space_room import space_taken
from meanfield.plotting.movies.stage import stage
from meanfield.plotting.tokens.labels import labels
from meanfield.plotting.tokens.moving import Ghosts
from meanfield.plotting.tokens.moving_words import word_order
from meanfield.plotting.tokens.views import Window, robust_windows

SHORT = Film(fps=10, seconds=0.4, size=(240, 250))
CODES = {"flag_values": [0, 2], "flag_meanings": "finished blow-up"}


def gaussians(factor: np.ndarray, stop: list[float], codes: list[int]) -> xr.Dataset:
    """An ensemble in the plane, with means at zero, at times 0, 1, …."""
    n, times = factor.shape[:2]
    stop_time = np.array(stop)
    return xr.Dataset(
        {
            "mean": (("run", "time", "coord"), np.zeros((n, times, 2))),
            "factor": (("run", "time", "coord", "rank"), factor),
            "status": ("run", codes, CODES),
            "stop_time": ("run", stop_time),
            "t_star": ("run", np.where(np.array(codes) == 2, stop_time, np.nan)),
        },
        {"time": np.arange(times, dtype=float)},
        {"kind": "gaussian", "title": "two"},
    )


@pytest.fixture
def pair() -> xr.Dataset:
    """One Gaussian that stays, and one that has gone at time 2.5."""
    sizes = np.array([[1.0, 1.1, 1.2, 1.3, 1.4], [1.0, 2.0, 9.0, 1e4, 1e4]])
    factor = np.sqrt(sizes)[..., None, None] * np.diag([1.0, 0.5])
    return gaussians(factor, [4.0, 2.5], [0, 2])


WIDE, TALL = (640, 360), (432, 450)


def staged(
    data: xr.Dataset, size: tuple[int, int], look: Look, frame: int = 0
) -> tuple[Figure, Axes, list[Text]]:
    """A frame as it is drawn, its axes, and all text outside them and their labels."""
    data, film = look.upon(data), Film(size=size)
    with look.applied():
        play = movies[suited(data)].play(data, film)
        figure, show = stage(data, play, film)
        show(range(play.times.size)[frame])
        figure.draw_without_rendering()
    axes = figure.axes[0]
    legend = axes.get_legend() or next(iter(figure.legends), None)
    texts = [*figure.texts, *(a for a in figure.artists if isinstance(a, Text))]
    texts += [] if legend is None else legend.get_texts()
    heads = [
        t for t in axes.get_children() if isinstance(t, Text) and "t = " in t.get_text()
    ]
    return figure, axes, [t for t in [*texts, *heads] if t.get_text()]


def said(texts: list[Text]) -> str:
    return " ".join(" ".join(text.get_text() for text in texts).split())


@pytest.mark.parametrize("style", ["paper", "talk"])
@pytest.mark.parametrize("size", [WIDE, TALL])
def test_a_cone_fills_its_movie_and_touches_no_words(
    pair: xr.Dataset, size: tuple[int, int], style: str
) -> None:
    figure, axes, texts = staged(pair, size, Look(style=style), frame=-1)
    assert isinstance(axes, Axes3D)
    page, cone = figure.bbox, space_taken(axes)
    assert cone.x0 >= 0
    assert cone.x1 <= page.width
    assert cone.height > (0.8 if size == WIDE else 0.5) * page.height
    for text in texts:
        assert not cone.overlaps(text.get_window_extent())


@pytest.mark.parametrize("style", ["paper", "talk", "dark-talk"])
def test_a_square_picture_fills_a_wide_movie_with_all_words_beside_it(
    rng: Generator, style: str
) -> None:
    spec = {"A": [[2.0, 0.5], [0.0, 1.0]], "n": 12, "d": 2, "init": "moons", "t": 2.0}
    data = shrinking(rng).assign_attrs(spec=spec, title="softmax attention: tokens")
    figure, axes, texts = staged(data, WIDE, Look(style=style), frame=-1)
    page, picture = figure.bbox, axes.get_tightbbox()
    assert picture is not None
    assert axes.bbox.height > 0.8 * page.height
    assert axes.bbox.width == pytest.approx(axes.bbox.height, rel=0.2)
    boxes = [text.get_window_extent() for text in texts]
    for index, box in enumerate(boxes):
        assert picture.x1 < box.x0
        assert box.x1 <= page.width
        assert box.y0 >= 0
        assert box.y1 <= page.height
        assert not any(box.overlaps(other) for other in boxes[:index])
    assert "RMS radius" in said(texts)


@pytest.mark.parametrize("style", ["paper", "talk"])
def test_a_picture_takes_most_of_a_square_movie(
    rng: Generator, pair: xr.Dataset, style: str
) -> None:
    spec = {"A": [[2.0, 0.5], [0.0, 1.0]], "n": 12, "d": 2, "init": "moons", "t": 2.0}
    tokens = shrinking(rng).assign_attrs(spec=spec, title="softmax attention: tokens")
    for data in (tokens, pair, blown_up(np.array([0.0, 0.1, 0.2]))):
        figure, axes, texts = staged(data, (540, 540), Look(style=style), frame=-1)
        space = isinstance(axes, Axes3D)
        picture = space_taken(axes) if space else axes.bbox
        assert picture.height >= 0.6 * figure.bbox.height
        for text in texts:
            assert text.get_window_extent().x1 <= figure.bbox.x1


def test_a_legend_says_how_runs_will_end_with_the_marks_that_are_drawn(
    pair: xr.Dataset,
) -> None:
    look, film = Look(), Film(size=WIDE)
    data = look.upon(pair)
    with look.applied():
        figure, show = stage(data, movies["disc"].play(data, film), film)
        show(0)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:2] == ["will end: finished", "will end: blow-up"]
    drawn = [p for p in figure.axes[0].collections if isinstance(p, PathCollection)]
    shapes = {np.shape(part.get_paths()[0].vertices) for part in drawn}
    handles = [h for h in legend.legend_handles[:2] if isinstance(h, Line2D)]
    marks = [str(handle.get_marker()) for handle in handles]
    assert marks == ["o", "^"]
    outlines = [MarkerStyle(mark).get_path().vertices for mark in marks]
    assert shapes == {np.shape(outline) for outline in outlines}


@pytest.mark.parametrize("size", [WIDE, TALL])
def test_small_print_counts_tokens_outside_the_limits(
    rng: Generator, size: tuple[int, int]
) -> None:
    x = rng.uniform(-1, 1, size=(50, 2))
    x[:3, 1] = 3.1, -3.1, 2.5
    data = points(np.stack([x, 0.1 * x]))
    _, _, texts = staged(data, size, Look(ylim=(-2.0, 2.0)), frame=-1)
    assert "up to 3 of 50 tokens are outside the view" in said(texts)
    for look in (Look(), Look(ylim=(-4.0, 4.0))):
        assert "outside" not in said(staged(data, size, look)[2])
    line_of = data.isel(coord=[1])
    _, _, texts = staged(line_of, size, Look(ylim=(-3.0, 3.0)))
    assert "up to 2 of 50 tokens are outside the view" in said(texts)


def test_legends_name_what_moves_and_the_last_frame_how_it_ended(
    rng: Generator, pair: xr.Dataset
) -> None:
    line_of, space = shrinking(rng, d=1), shrinking(rng, d=3)
    for data, name, end in (
        (shrinking(rng), "2σ ellipse", "finished"),
        (line_of, "mean ± 2σ", "finished"),
        (space, "2σ ellipsoid", "finished"),
        (line(np.linspace(1.0, 2.0, 5)), "quantiles", "finished: last time reached"),
        (pair.isel(run=0), "2σ, earlier", "finished"),
        (pair.isel(run=1), "mean", "blow-up, t* = 2.5"),
        (pair, "isotropic", "finished: 1 of 2"),
    ):
        first, last = (said(staged(data, WIDE, Look(), frame)[2]) for frame in (0, -1))
        assert name in first
        assert end in last
        assert end not in first.replace("finished blow-up", "")


def test_words_that_drift_are_followed_and_others_stay(rng: Generator) -> None:
    steps = np.array([[0.0, 0.0], [12.0, 0.0], [24.0, 3.0]])
    x = rng.normal(size=(8, 2)) + steps[:, None]
    words = points(x).assign_coords(word=("token", [*"abcdefgh"]))
    for data, is_followed in ((points(x), False), (words, True)):
        views, note = robust_windows(cloud(data))
        assert ("follows" in note) == is_followed
        assert (views[0].half_width < 10) == is_followed
        for view, places in zip(views, x, strict=True):
            assert (np.abs(places - view.centre) <= view.half_width).all()


def test_words_keep_clear_of_the_tails_of_dots() -> None:
    dots, sizes = np.full((1, 1, 2), 100.0), np.array([[40.0, 10.0]])
    page = {"ranks": np.zeros(1), "room": np.full(2, 200.0)}
    free = labels(dots, sizes, **page).offsets[0, 0]
    tail = np.stack([np.linspace(105, 160, 12), np.full(12, 108.0)], axis=-1)
    moved = labels(dots, sizes, **page, tails=tail[None]).offsets[0, 0]
    low = dots[0, 0] + moved
    assert ((tail >= dots[0, 0] + free) & (tail <= dots[0, 0] + free + sizes[0])).any()
    assert not ((tail >= low) & (tail <= low + sizes[0])).all(axis=1).any()


def test_a_gif_keeps_the_paper_and_all_colours(rng: Generator) -> None:
    hues = rng.integers(0, 256, (12, 3))
    frames = []
    for index in range(12):
        pixels = np.full((40, 40, 3), 253, dtype=np.uint8)
        pixels[10:20, 10 + index : 20 + index] = hues[0]
        pixels[25:30, 25:30] = hues[1]
        frames.append(Image.fromarray(pixels))
    with Image.open(BytesIO(Film(fps=20).movie(frames, ".gif"))) as movie:
        images = [np.asarray(i.convert("RGB")) for i in ImageSequence.Iterator(movie)]
    for image, frame in zip(images, frames, strict=True):
        assert (image[0, 0] == 253).all()
        assert np.abs(image.astype(int) - np.asarray(frame)).max() <= 8


@pytest.mark.parametrize(
    ("name", "pixels"), [("a.gif", (641, 359)), ("a.mp4", (642, 360))]
)
def test_a_video_has_even_sizes(name: str, pixels: tuple[int, int]) -> None:
    assert Film(size=(641, 359)).pixels(Path(name)) == pixels


def softmax_sizes(times: np.ndarray | float) -> np.ndarray:
    """A Gaussian of variance 2 under softmax with A = V = 1, which has t* = 1/4."""
    return np.sqrt(2.0 / (1.0 - 4.0 * times))


def blown_up(times: np.ndarray) -> xr.Dataset:
    """It on the line, at these times and in a last frame just before it blows up."""
    times = np.append(times, 0.25 - 1e-9)
    factor = softmax_sizes(times)[:, None, None]
    data = gaussian(np.zeros((times.size, 1)), factor, status=2, t_star=0.25)
    return data.assign_coords(time=times)


@pytest.mark.parametrize("spacing", [0.1, 0.05, 0.02])
def test_no_size_is_said_that_is_not_that_of_its_time(spacing: float) -> None:
    data = blown_up(np.arange(0.0, 0.2499, spacing))
    play = movies["tokens"].play(data, Film(seconds=4.0))
    for frame, t in enumerate(play.times[:-1]):
        said = float(play.says(frame)[0].removeprefix("RMS radius "))
        assert said == pytest.approx(softmax_sizes(t), rel=0.025)


def test_a_cloud_that_turns_is_held_and_not_shrunk_on_the_way() -> None:
    angle = np.array([0.0, 0.3, 2.0])
    pair = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    run = cloud(points(np.stack([pair, -pair], axis=1)))
    is_near = near_steps(run)
    assert is_near.tolist() == [True, False]
    places = np.array([0.5, 1.0, 1.5, 1.9, 2.0])
    assert held(places, is_near).tolist() == [0.5, 1.0, 1.0, 1.0, 2.0]


def test_lines_over_time_are_broken_where_no_straight_line_is_true() -> None:
    data = blown_up(np.array([0.0, 0.1, 0.2]))
    _, axes, texts = staged(data, WIDE, Look(), frame=-1)
    assert "it goes on to" in said(texts)
    assert "the view holds the cloud up to t = 0.2" in said(texts)
    low, high = axes.get_xlim()
    assert low < 0.0 < 0.25 < high
    drawn = [np.asarray(part.get_xydata()) for part in axes.lines]
    stars = [xy for xy in drawn if len(xy) == 2 and (xy[:, 0] == 0.25).all()]
    assert stars  # a line at the time of the blow-up
    bands = [xy for xy in drawn if np.isnan(xy[:, 0]).any()]
    assert len(bands) == 3
    for xy in bands:
        steps = np.diff(xy[:, 0])
        assert np.nanmax(steps) < 0.05  # nothing leads from 0.1 to 0.2, nor beyond
    points_drawn = next(
        xy
        for line_, xy in zip(axes.lines, drawn, strict=True)
        if line_.get_marker() == "o"
    )
    assert {0.1, 0.2} <= set(points_drawn[:, 0])
    ends = points_drawn[points_drawn[:, 0] == 0.2, 1]
    assert np.allclose(np.unique(ends), 2 * softmax_sizes(0.2) * np.array([-1, 0, 1]))


@pytest.mark.parametrize("kind", ["gaussian", "density"])
def test_a_line_stands_beside_its_words_in_a_wide_movie(kind: str) -> None:
    gauss = blown_up(np.array([0.0, 0.1, 0.2]))
    data = gauss if kind == "gaussian" else line(np.linspace(1.0, 2.0, 5))
    figure, axes, texts = staged(data, WIDE, Look(style="talk"))
    picture = axes.get_tightbbox()
    assert picture is not None
    assert axes.bbox.height > 0.75 * figure.bbox.height
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 > picture.x1
        assert box.x1 <= figure.bbox.x1
    time = max(texts, key=lambda text: text.get_fontsize())
    assert time.get_text().startswith("t = ")


def test_a_long_legend_keeps_clear_of_small_print(rng: Generator) -> None:
    x = np.repeat(np.arange(6.0), 4)[:, None] + 1e-3 * rng.random((24, 1))
    spec = {"A": -1.0, "n": 24, "d": 1, "init": "antithetic", "t": 2.0}
    data = points(np.stack([x, x])).assign_attrs(spec=spec, title="softmax: tokens")
    look = Look(style="talk", link=0.1)
    _, _, texts = staged(data, WIDE, look)
    boxes = [text.get_window_extent() for text in texts]
    assert sum("cluster, " in text.get_text() for text in texts) == 6
    for index, box in enumerate(boxes):
        assert box.y0 >= 0
        assert not any(box.overlaps(other) for other in boxes[:index])


def test_the_box_is_named_where_it_is_drawn() -> None:
    for half in (4.0, 40.0):
        _, axes, texts = staged(line(np.ones(5), half=half), WIDE, Look())
        box = [part for part in axes.lines if part.get_color() == CYCLE[2]]
        low, high = axes.get_xlim()
        ends = [np.asarray(part.get_xdata())[0] for part in box]
        assert ("box" in said(texts)) == any(low <= x <= high for x in ends)
        assert ("box" in said(texts)) == (half < 10)


def test_between_near_frames_tokens_move_straight(rng: Generator) -> None:
    run = cloud(shrinking(rng, frames=4))
    places = np.array([0.0, 0.25, 1.0, 2.6, 3.0])
    moved = between(run, places)
    stored = np.arange(4.0)
    assert np.allclose(moved.times, np.interp(places, stored, run.times))
    for token in range(3):
        path = np.interp(places, stored, run.state[0][:, token, 1])
        assert np.allclose(moved.state[0][:, token, 1], path)


def test_words_are_inside_and_cover_no_other(rng: Generator) -> None:
    dots = 200 * rng.random((1, 60, 2)) + np.linspace(0, 40, 12)[:, None, None]
    sizes = np.stack([8 + 30 * rng.random(60), np.full(60, 10.0)], axis=-1)
    room = np.array([260.0, 240.0])
    placed = labels(dots, sizes, ranks=rng.integers(0, 3, 60), room=room)
    low = dots + placed.offsets
    high, shown = low + sizes, placed.opacity > 0
    assert (shown.sum(axis=1) >= 20).all()
    for frame in range(12):
        boxes = [(low[frame, i], high[frame, i]) for i in np.flatnonzero(shown[frame])]
        for index, (a, b) in enumerate(boxes):
            assert (a >= 0).all()
            assert (b <= room).all()
            apart = [((b < c) | (d < a)).any() for c, d in boxes[:index]]
            assert all(apart)


def test_words_of_tokens_that_stand_still_do_too(rng: Generator) -> None:
    dots = np.broadcast_to(100 * rng.random((20, 2)), (6, 20, 2))
    sizes = np.full((20, 2), 12.0)
    placed = labels(dots, sizes, ranks=np.zeros(20), room=np.full(2, 120.0))
    assert (placed.offsets == placed.offsets[0]).all()
    assert (np.isin(placed.opacity, (0.0, 1.0))).all()


def test_no_word_is_half_faded_in_the_frame_that_stands() -> None:
    dots = np.array([[[50.0, 50.0]], [[50.0, 50.0]], [[119.0, 119.0]]])
    size, room = np.full((1, 2), 12.0), np.full(2, 120.0)
    placed = labels(dots, size, ranks=np.zeros(1), room=room)
    assert placed.opacity[-1] in (0.0, 1.0)


def test_telling_words_come_first() -> None:
    words = np.array(["[CLS]", "a", "cat", "sleeps", ".", "warm"])
    assert [words[i] for i in word_order(words)] == [
        "sleeps",
        "warm",
        "cat",
        "a",
        "[CLS]",
        ".",
    ]


def test_the_headline_says_the_layer_and_its_place() -> None:
    spec = {"model": "minilm", "text": "a cat", "model_layers": [3, 5]}
    data = xr.Dataset(coords={"time": [0.0, 2.0]}, attrs={"spec": spec})
    said = layers_shown(data, np.array([0.0, 0.9, 1.0, 2.0]))
    assert said == ["layer 3 (1 of 2)"] * 2 + ["layer 5 (2 of 2)"] * 2
    assert layers_shown(data.assign_attrs(spec=None), np.zeros(2)) == ["", ""]


def test_sizes_are_in_three_digits_and_none_that_is_not_finite() -> None:
    sizes = (0.0, 0.00123456, 9.876, 9.999, 999.7, 1234.5, 2.345e5, 2e-7)
    said = [size_note(size).split()[-1] for size in sizes]
    plain, powers = ["0", "0.00123", "9.88", "10.0"], ["1.00·10³", "1.23·10³"]
    assert said == [*plain, *powers, "2.34·10⁵", "2.00·10⁻⁷"]
    assert size_note(np.nan) == size_note(np.inf) == ""


@pytest.mark.parametrize("fps", [7, 30, 60, 100])
def test_a_gif_lasts_as_long_as_it_is_asked_to(fps: int) -> None:
    film = Film(fps=fps, seconds=2.0, hold=0.5)
    count = film.count(5)
    greys = [255 * i // count for i in range(count)]
    frames = [Image.new("RGB", (4, 4), (grey, grey, grey)) for grey in greys]
    with Image.open(BytesIO(film.movie(frames, ".gif"))) as movie:
        images = ImageSequence.Iterator(movie)
        shown = [(i.info["duration"], i.convert("L").getpixel((0, 0))) for i in images]
    durations, shades = zip(*shown, strict=True)
    assert sum(durations) == pytest.approx(2500 + 1000 * (count / fps - 2), abs=5)
    assert min(durations) >= 20  # browsers slow what is faster
    assert shades[-1] == pytest.approx(greys[-1], abs=4)


def test_frames_of_a_density_stand_equally_long() -> None:
    frames = frames_shown(5, Film(fps=20, seconds=3.0))
    assert np.bincount(frames).tolist() == [12] * 5
    few = frames_shown(11, Film(fps=10, seconds=0.6))
    assert few.tolist() == [0, 2, 4, 6, 8, 10]


def test_what_small_print_says_of_few_frames(rng: Generator, pair: xr.Dataset) -> None:
    film = Film(fps=10, seconds=1.0)
    slow = points(rng.normal(size=(8, 2)) * np.linspace(1, 0.9, 5)[:, None, None])
    density = line(np.linspace(1.0, 2.0, 5))
    near = "5 stored frames: straight lines between near ones, others held"
    for data, panel, note in (
        (slow, "tokens", "5 stored frames, straight lines between them"),
        (shrinking(rng), "tokens", "5 stored frames, each held until the next"),
        (pair, "cone", near),
        (density, "density", "5 stored frames, each as long as the next"),
    ):
        for movie, is_said in ((film, True), (SHORT, False)):
            with Look().applied():
                figure, _ = stage(data, movies[panel].play(data, movie), movie)
            said = " ".join(figure.get_supxlabel().split())
            assert (note in said) == is_said


def test_words_keep_to_the_limits_that_are_chosen() -> None:
    x = np.array([[0.0, 0.0], [1.0, 0.3], [2.02, -0.3], [9.0, 1.0]])
    words = ["centre", "near", "beyond", "faraway"]
    data = points(np.stack([x, 0.9 * x])).assign_coords(word=("token", words))
    look = Look(xlim=(-0.5, 2.0))
    data = look.upon(data)
    with look.applied():
        figure, show = stage(data, movies["tokens"].play(data, SHORT), SHORT)
        show(0)
        figure.canvas.draw()
        axes = figure.axes[0]
        scale = axes.transData.transform([[0, 0], [1, 1]])
        assert np.ptp(scale[:, 0]) == pytest.approx(np.ptp(scale[:, 1]))
        shown = {t.get_text(): t for t in axes.texts if t.get_visible()}
        assert {"centre", "near"} == set(shown) & set(words)
        for text in shown.values():
            box, room = text.get_window_extent(), axes.bbox
            assert room.x0 - 3 <= box.x0
            assert box.x1 <= room.x1 + 3


def test_dots_stand_where_they_are_in_limits_far_wider_than_the_cloud() -> None:
    start = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    x = np.stack([start, 3 * start, 1e3 * start])
    look = Look(xlim=(-1100.0, 1100.0), ylim=(-1100.0, 1100.0))
    data = look.upon(points(x, status=2, t_star=2.1))
    film = Film(fps=10, seconds=0.3)
    with look.applied():
        figure, show = stage(data, movies["tokens"].play(data, film), film)
        show(2)
    axes = figure.axes[0]
    assert axes.get_xlim() == look.xlim
    places = [np.asarray(part.get_offsets()) for part in axes.collections]
    assert any(p.shape == (3, 2) and np.allclose(p, x[2]) for p in places)


def test_help_says_the_turn_of_the_camera_that_it_makes(rng: Generator) -> None:
    data, film = shrinking(rng, d=3), SHORT
    with Look().applied():
        figure, show = stage(data, movies["tokens"].play(data, film), film)
    azimuths = []
    for frame in (0, 3):
        show(frame)
        (axes,) = (a for a in figure.axes if isinstance(a, Axes3D))
        azimuths.append(axes.azim)
    assert f"[default: {azimuths[1] - azimuths[0]:g}]" in str(signature(command))


def test_each_movie_stands_in_one_row(rng: Generator, pair: xr.Dataset) -> None:
    assert movie_names(None) == list(movies)
    assert [name for name, movie in movies.items() if movie.of_several] == [
        "cone",
        "disc",
    ]
    assert suited(pair) == "cone"
    assert suited(pair.isel(run=0)) == suited(shrinking(rng)) == "tokens"
    assert suited(line(np.ones(2))) == "density"


def test_paths_march_through_the_cone_and_leave_at_its_rim(pair: xr.Dataset) -> None:
    march = marched(pair, Film(fps=10, seconds=4.1), "cone")
    times = np.linspace(0.0, 4.0, 41)
    assert np.allclose(march.times, times)
    trace = 1.25 * np.interp(times, range(5), [1.0, 1.1, 1.2, 1.3, 1.4])
    assert np.allclose(march.places[:, 0, 2], trace)
    # The other is at trace 11.25 at time 2, over the height, and has gone at 2.5.
    before = times < 1.0
    assert np.allclose(march.places[before, 1, 2], 1.25 * (1 + times[before]))
    gone = march.left[1]
    assert 1.0 < times[gone] <= 2.0
    assert np.allclose(march.places[gone:, 1, 2], march.height)
    assert march.left[0] == 41
    assert march.count(24) == ["blow-up: 0 of 2"]
    assert march.count(25) == ["blow-up: 1 of 2"]
    assert march.count(40) == ["finished: 1 of 2", "blow-up: 1 of 2"]


def test_arrows_start_at_the_rim_of_those_that_leave(pair: xr.Dataset) -> None:
    march = marched(pair, SHORT, "cone")
    stays, leaves = march.arrows()
    assert np.isnan(stays).all()
    assert leaves[0, 2] == pytest.approx(march.height)
    assert leaves[1, 2] > leaves[0, 2]


def test_a_gaussian_leaves_its_past_ellipses_behind(pair: xr.Dataset) -> None:
    track = cloud(pair.isel(run=0)).state
    assert isinstance(track, Track)
    axes = Figure().add_subplot()
    ghosts = Ghosts(axes, track, 3)
    ghosts.show(4, Window(np.zeros(2), 10.0, ""))
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    widths = [np.ptp(np.asarray(path)[:, 0]) for path in lines.get_segments()]
    # Two standard deviations either way, at the frames 1, 2 and 3.
    assert np.allclose(widths, 4 * np.sqrt([1.1, 1.2, 1.3]), rtol=1e-3)
    shades = np.asarray(lines.get_edgecolor())[:3, 3]
    assert (np.diff(shades) > 0).all()
    none = Ghosts(axes, track, 0)
    none.show(4, Window(np.zeros(2), 10.0, ""))
    assert len(axes.collections[-1].get_paths()) == 0


@pytest.mark.parametrize("panel", ["tokens", "disc"])
def test_what_is_painted_over_a_backdrop_is_the_whole_figure(
    pair: xr.Dataset, rng: Generator, panel: str
) -> None:
    data = shrinking(rng) if panel == "tokens" else pair
    with Look().applied():
        figure, show = stage(data, movies[panel].play(data, SHORT), SHORT)
        painter = Painter(figure, 240)
        for frame in range(4):
            show(frame)
            painted = np.asarray(painter.image(), dtype=float)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            whole = np.asarray(canvas.buffer_rgba(), dtype=float)[..., :3]
            # Spines may stand over a dot in the one and under it in the other.
            assert (np.abs(painted - whole) > 8).mean() < 2e-3


def test_an_ensemble_of_gaussians_goes_through_the_cone(
    pair: xr.Dataset, tmp_path: Path
) -> None:
    path = animate(pair, tmp_path / "cone.gif", film=SHORT)
    with Image.open(path) as movie:
        assert movie.size == (240, 250)
        assert len(list(ImageSequence.Iterator(movie))) == 4
    with pytest.raises(InvalidInputError, match="shows one run, this dataset holds 2"):
        animate(pair, tmp_path / "a.gif", panel="tokens", film=SHORT)
    with pytest.raises(InvalidInputError, match="`link` is for movies of tokens; this"):
        animate(pair, tmp_path / "a.gif", look=Look(link=0.1))


@pytest.mark.parametrize("style", ["talk", "dark"])
def test_past_ellipses_and_leading_lines_take_a_style(
    style: str, rng: Generator, pair: xr.Dataset, tmp_path: Path
) -> None:
    """Each of their lines has an opacity of its own, and no face."""
    words = points(rng.normal(size=(3, 4, 2))).assign_coords(word=("token", [*"abcd"]))
    paper = 20 if style == "dark" else 255  # how light it is
    for run in (pair.isel(run=0), words):
        look = Look(style=style)
        path = animate(run, tmp_path / "run.gif", look=look, film=SHORT)
        with Image.open(path) as movie:
            for image in ImageSequence.Iterator(movie):
                light = np.asarray(image.convert("L"), dtype=float)
                assert np.median(light) == pytest.approx(paper, abs=3)
                # Text and lines stand out from it, thin as they are.
                assert (np.abs(light - paper) > 100).mean() > 5e-3


def test_movies_refuse_what_has_none(rng: Generator, tmp_path: Path) -> None:
    run, target = shrinking(rng), tmp_path / "a.gif"
    with pytest.raises(UnknownNameError, match=r"movie `cones`.*`cone`"):
        animate(run, target, panel="cones")
    with pytest.raises(InvalidInputError, match="one frame, which makes no movie"):
        animate(run.isel(time=[0]), target)
    space = ensemble(rng, "gaussian").isel(coord=[0])
    for panel, data in (
        ("cone", space),
        ("disc", space),
        ("cone", shrinking(rng, d=3)),
    ):
        with pytest.raises(InvalidInputError, match=r"of dimension 2; .*`tokens`"):
            animate(data, target, panel=panel)
    assert not target.exists()
