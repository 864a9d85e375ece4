"""Movies: what is between stored frames, where words stand, how a cone fills."""

from inspect import signature
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from density_data import line
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from movie_parts import (
    SHORT,
    TALL,
    WIDE,
    blown_up,
    gaussians,
    one_stays,
    said,
    softmax_sizes,
    staged,
)
from mpl_toolkits.mplot3d import Axes3D
from numpy.random import Generator
from PIL import Image, ImageSequence
from plotting_data import ensemble, points, shrinking

from meanfield.cli.commands.animate import animate as command
from meanfield.cli.commands.animate import movie_names
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import Film, Look, animate
from meanfield.plotting._runs.data import Track, cloud
from meanfield.plotting._runs.pace import (
    between,
    frames_shown,
    held,
    near_steps,
    sizes_between,
)
from meanfield.plotting.cone.march import marched
from meanfield.plotting.movies.painter import Painter
from meanfield.plotting.movies.plays import movies, suited
from meanfield.plotting.movies.space_room import space_taken
from meanfield.plotting.movies.stage import stage
from meanfield.plotting.tokens.moving import Ghosts
from meanfield.plotting.tokens.views import Window


@pytest.fixture
def pair() -> xr.Dataset:
    return one_stays()


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


@pytest.mark.parametrize("turn", [90.0, 360.0])
def test_axes_in_space_touch_no_words_as_they_turn(rng: Generator, turn: float) -> None:
    data = Look().upon(shrinking(rng, d=3))
    film = Film(size=(1280, 720), turn=turn, fps=10, seconds=2.5)
    with Look().applied():
        figure, show = stage(data, movies["tokens"].play(data, film), film)
        (axes,) = (axes for axes in figure.axes if isinstance(axes, Axes3D))
        for frame in range(25):
            show(frame)
            figure.draw_without_rendering()
            words = [a for a in figure.artists if isinstance(a, Text) and a.get_text()]
            left = min(text.get_window_extent().x0 for text in words)
            assert space_taken(axes).x1 < left


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


@pytest.mark.parametrize("spacing", [0.1, 0.05, 0.02])
def test_no_size_is_said_that_is_not_that_of_its_time(spacing: float) -> None:
    data = blown_up(np.arange(0.0, 0.2499, spacing))
    play = movies["tokens"].play(data, Film(seconds=4.0))
    for frame, t in enumerate(play.times[:-1]):
        said = float(play.says(frame)[0].removeprefix("RMS radius "))
        # Half a unit of the third of three digits, as large as it is for 1.00.
        assert said == pytest.approx(softmax_sizes(t), rel=5e-3)


def test_a_cloud_that_turns_keeps_the_size_that_is_said() -> None:
    angle = 0.45 * np.arange(9.0)
    pair = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    data = points(np.stack([pair, -pair], axis=1))
    play = movies["tokens"].play(data, Film(seconds=4.0))
    assert np.unique(play.times).size > 9  # it moves between the frames
    assert {play.says(frame)[0] for frame in range(79)} == {"RMS radius 1.00"}


def test_no_size_between_frames_is_beyond_its_neighbours() -> None:
    sizes = np.array([1.0, 1.1, 1.1, 1.3, 1e4, 0.0, 0.0])
    places = np.linspace(0.0, 6.0, 61)
    drawn = sizes_between(sizes, places)
    assert (drawn[::10] == sizes).all()
    below, above = (
        sizes[np.floor(places).astype(int)],
        sizes[np.ceil(places).astype(int)],
    )
    assert (drawn >= np.minimum(below, above)).all()
    assert (drawn <= np.maximum(below, above)).all()
    growth = sizes_between(np.exp(np.arange(4.0)), places[:31])
    assert np.allclose(growth, np.exp(places[:31]))


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


def test_frames_at_a_break_are_named_and_hide_no_blow_up() -> None:
    data = blown_up(np.array([0.0, 0.01, 0.1]))
    _, _, texts = staged(data.isel(time=slice(0, 2)), WIDE, Look(), frame=-1)
    assert "stored frame" not in [text.get_text() for text in texts]
    _, axes, texts = staged(data, WIDE, Look(), frame=-1)
    assert "stored frame" in [text.get_text() for text in texts]
    star = next(p for p in axes.lines if np.all(np.asarray(p.get_xdata()) == 0.25))
    bar = next(part for part in axes.lines if part.get_marker() == "_")
    assert star.get_zorder() > bar.get_zorder()


def test_between_near_frames_tokens_move_straight(rng: Generator) -> None:
    run = cloud(shrinking(rng, frames=4))
    places = np.array([0.0, 0.25, 1.0, 2.6, 3.0])
    moved = between(run, places)
    stored = np.arange(4.0)
    assert np.allclose(moved.times, np.interp(places, stored, run.times))
    for token in range(3):
        path = np.interp(places, stored, run.state[0][:, token, 1])
        assert np.allclose(moved.state[0][:, token, 1], path)


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
    # All stand while the other goes far, until it has left at time 2.
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
    march = marched(turning(np.pi / 2 * np.arange(4)), Film(seconds=3.0), panel)
    assert set(march.times) == {0.0, 1.0, 2.0, 3.0}
    # At (a - b, 2c) / trace = (±1, 0), but for the thin axis; never at the centre.
    place = march.places[:, 0, :2] / (1.0025 if panel == "cone" else 1.0)
    signs = np.where(march.times % 2 == 0, 1.0, -1.0)
    assert np.allclose(place, [[0.9975 / 1.0025, 0.0]] * signs[:, None], atol=1e-12)
    assert march.note == "4 stored frames, each held until the next; lines join them"


@pytest.mark.parametrize("panel", ["cone", "disc"])
def test_a_covariance_that_turns_little_stays_thin_on_the_way(panel: str) -> None:
    march = marched(turning(0.4 * np.arange(4)), Film(seconds=3.0), panel)
    assert np.unique(march.times).size == march.times.size == 60
    shape = march.places[:, 0, :2]
    if panel == "cone":
        assert np.allclose(march.places[:, 0, 2], 1.0025)  # its trace stays, too
        shape = shape / march.places[:, 0, 2:]
    assert np.allclose(np.linalg.norm(shape, axis=1), 0.9975 / 1.0025)


def test_a_path_is_at_its_end_when_it_ends_and_stays_there() -> None:
    sizes = np.array([[1.0, 1.1, 1.2, 1.2], [1.0, 1.05, 1.1, 1.15]])
    factor = np.sqrt(sizes)[..., None, None] * np.eye(2)
    march = marched(gaussians(factor, [1.5, 3.0], [2, 0]), Film(seconds=3.05), "cone")
    traces = march.places[:, 0, 2]
    assert np.allclose(traces[march.times >= 1.5], 2.4)
    assert (np.diff(traces[march.times <= 1.5]) > 0).all()


def test_the_ellipse_of_a_gaussian_that_turns_keeps_its_size() -> None:
    run = cloud(turning(0.4 * np.arange(4)).isel(run=0))
    track = between(run, np.linspace(0.0, 3.0, 31)).state
    assert isinstance(track, Track)
    deviations = np.linalg.svd(track.factor, compute_uv=False)
    assert np.allclose(deviations, [1.0, 0.05])


def test_the_disc_moves_a_shape_that_stays_while_its_size_goes_far() -> None:
    growing = turning(np.zeros(4))
    growing["factor"] = growing["factor"] * 10.0 ** growing["time"]
    march = marched(growing, Film(seconds=3.0), "disc")
    assert march.note == "4 stored frames, straight lines between them"
    assert np.unique(march.times).size == 60


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
