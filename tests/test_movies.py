"""Movies fill their frames, accept styles and colours, and can be played."""

from inspect import signature
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from density_data import gaussian_on_line
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from movie_data import (
    SHORT,
    TALL,
    WIDE,
    blow_up_on_line,
    draw_frame,
    joined_text,
    pair_with_blow_up,
)
from mpl_toolkits.mplot3d import Axes3D
from numpy.random import Generator
from PIL import Image, ImageSequence
from plotting_data import ensemble, points, shrinking

from meanfield.cli.commands.animate import animate as command
from meanfield.cli.commands.animate import movie_names
from meanfield.errors import InvalidInputError, UnknownNameError
from meanfield.plotting import Film, Look, animate
from meanfield.plotting.movies.painter import Painter
from meanfield.plotting.movies.plays import default_movie, movies
from meanfield.plotting.movies.space_room import space_taken
from meanfield.plotting.movies.stage import stage
from meanfield.plotting.reading.pace import frames_shown


@pytest.fixture
def pair() -> xr.Dataset:
    return pair_with_blow_up()


@pytest.mark.slow_cases("size0-paper", "size1-talk")
@pytest.mark.parametrize("style", ["paper", "talk"])
@pytest.mark.parametrize("size", [WIDE, TALL])
def test_a_cone_fills_its_movie_and_avoids_text(
    pair: xr.Dataset, size: tuple[int, int], style: str
) -> None:
    figure, axes, texts = draw_frame(pair, size, Look(style=style), frame=-1)
    assert isinstance(axes, Axes3D)
    page, cone = figure.bbox, space_taken(axes)
    assert cone.x0 >= 0
    assert cone.x1 <= page.width
    assert cone.height > (0.8 if size == WIDE else 0.5) * page.height
    for text in texts:
        assert not cone.overlaps(text.get_window_extent())


@pytest.mark.parametrize("style", ["paper", "talk", "dark-talk"])
def test_a_square_picture_in_a_wide_movie_has_text_beside_it(
    rng: Generator, style: str
) -> None:
    spec = {"A": [[2.0, 0.5], [0.0, 1.0]], "n": 12, "d": 2, "init": "moons", "t": 2.0}
    data = shrinking(rng).assign_attrs(spec=spec, title="softmax attention: tokens")
    figure, axes, texts = draw_frame(data, WIDE, Look(style=style), frame=-1)
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
        assert not any(box.overlaps(second) for second in boxes[:index])
    assert "RMS radius" in joined_text(texts)


@pytest.mark.slow_cases("talk")
@pytest.mark.parametrize("style", ["paper", "talk"])
def test_a_picture_takes_most_of_a_square_movie(
    rng: Generator, pair: xr.Dataset, style: str
) -> None:
    spec = {"A": [[2.0, 0.5], [0.0, 1.0]], "n": 12, "d": 2, "init": "moons", "t": 2.0}
    tokens = shrinking(rng).assign_attrs(spec=spec, title="softmax attention: tokens")
    for data in (tokens, pair, blow_up_on_line(np.array([0.0, 0.1, 0.2]))):
        figure, axes, texts = draw_frame(data, (540, 540), Look(style=style), frame=-1)
        space = isinstance(axes, Axes3D)
        picture = space_taken(axes) if space else axes.bbox
        assert picture.height >= 0.6 * figure.bbox.height
        for text in texts:
            assert text.get_window_extent().x1 <= figure.bbox.x1


@pytest.mark.parametrize("turn", [90.0, 360.0])
def test_rotating_axes_avoid_text(rng: Generator, turn: float) -> None:
    data = Look().attach_to(shrinking(rng, d=3))
    film = Film(size=(1280, 720), turn=turn, fps=10, seconds=2.5)
    with Look().rc_context():
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


@pytest.mark.parametrize("fps", [7, 30, 60, 100])
def test_a_gif_has_the_requested_duration(fps: int) -> None:
    film = Film(fps=fps, seconds=2.0, hold=0.5)
    count = film.count(5)
    greys = [255 * i // count for i in range(count)]
    frames = [Image.new("RGB", (4, 4), (grey, grey, grey)) for grey in greys]
    with Image.open(BytesIO(film.movie(frames, ".gif"))) as movie:
        images = ImageSequence.Iterator(movie)
        frame_colours = [
            (i.info["duration"], i.convert("L").getpixel((0, 0))) for i in images
        ]
    durations, shades = zip(*frame_colours, strict=True)
    assert sum(durations) == pytest.approx(2500 + 1000 * (count / fps - 2), abs=5)
    assert min(durations) >= 20  # browsers slow what is faster
    assert shades[-1] == pytest.approx(greys[-1], abs=4)


def test_frames_of_a_density_have_equal_duration() -> None:
    frames, _ = frames_shown(5, Film(fps=20, seconds=3.0))
    assert np.bincount(frames).tolist() == [12] * 5
    frame_ids, _ = frames_shown(11, Film(fps=10, seconds=0.6))
    assert frame_ids.tolist() == [0, 2, 4, 6, 8, 10]


def test_dots_keep_their_places_in_very_wide_limits() -> None:
    start = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    x = np.stack([start, 3 * start, 1e3 * start])
    look = Look(xlim=(-1100.0, 1100.0), ylim=(-1100.0, 1100.0))
    data = look.attach_to(points(x, status=2, t_star=2.1))
    film = Film(fps=10, seconds=0.3)
    with look.rc_context():
        figure, show = stage(data, movies["tokens"].play(data, film), film)
        show(2)
    axes = figure.axes[0]
    assert axes.get_xlim() == look.xlim
    places = [np.asarray(part.get_offsets()) for part in axes.collections]
    assert any(p.shape == (3, 2) and np.allclose(p, x[2]) for p in places)


def test_help_states_the_default_camera_rotation(rng: Generator) -> None:
    data, film = shrinking(rng, d=3), SHORT
    with Look().rc_context():
        figure, show = stage(data, movies["tokens"].play(data, film), film)
    azimuths = []
    for frame in (0, 3):
        show(frame)
        (axes,) = (a for a in figure.axes if isinstance(a, Axes3D))
        azimuths.append(axes.azim)
    assert f"[default: {azimuths[1] - azimuths[0]:g}]" in str(signature(command))


def test_movies_are_registered_with_their_defaults(
    rng: Generator, pair: xr.Dataset
) -> None:
    assert movie_names(None) == list(movies)
    assert [name for name, movie in movies.items() if movie.is_for_ensembles] == [
        "cone",
        "disc",
    ]
    assert default_movie(pair) == "cone"
    assert default_movie(pair.isel(run=0)) == default_movie(shrinking(rng)) == "tokens"
    assert default_movie(gaussian_on_line(np.ones(2))) == "density"


@pytest.mark.parametrize("panel", ["tokens", "disc"])
def test_cached_background_drawing_matches_the_full_figure(
    pair: xr.Dataset, rng: Generator, panel: str
) -> None:
    data = shrinking(rng) if panel == "tokens" else pair
    with Look().rc_context():
        figure, show = stage(data, movies[panel].play(data, SHORT), SHORT)
        painter = Painter(figure, 240)
        for frame in range(4):
            show(frame)
            picture = np.asarray(painter.image(), dtype=float)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            whole = np.asarray(canvas.buffer_rgba(), dtype=float)[..., :3]
            # Spines may be drawn over a dot in one, and under it in the other.
            assert (np.abs(picture - whole) > 8).mean() < 2e-3


def test_an_ensemble_of_gaussians_goes_through_the_cone(
    pair: xr.Dataset, tmp_path: Path
) -> None:
    path = animate(pair, tmp_path / "cone.gif", film=SHORT)
    with Image.open(path) as movie:
        assert movie.size == (240, 250)
        assert len(list(ImageSequence.Iterator(movie))) == 4
    with pytest.raises(InvalidInputError, match="shows one run; this dataset has 2"):
        animate(pair, tmp_path / "a.gif", panel="tokens", film=SHORT)
    with pytest.raises(InvalidInputError, match="`link` is for movies of tokens; this"):
        animate(pair, tmp_path / "a.gif", look=Look(link=0.1))


@pytest.mark.parametrize("style", ["talk", "dark"])
def test_past_ellipses_and_leading_lines_take_a_style(
    style: str, rng: Generator, pair: xr.Dataset, tmp_path: Path
) -> None:
    """Each of their lines has its own opacity, and no face."""
    words = points(rng.normal(size=(3, 4, 2))).assign_coords(word=("token", [*"abcd"]))
    paper = 20 if style == "dark" else 255  # how light it is
    for run in (pair.isel(run=0), words):
        look = Look(style=style)
        path = animate(run, tmp_path / "run.gif", look=look, film=SHORT)
        with Image.open(path) as movie:
            for image in ImageSequence.Iterator(movie):
                light = np.asarray(image.convert("L"), dtype=float)
                assert np.median(light) == pytest.approx(paper, abs=3)
                # Text and lines have enough contrast.
                assert (np.abs(light - paper) > 100).mean() > 5e-3


def test_movies_reject_panels_without_animation(rng: Generator, tmp_path: Path) -> None:
    run, target = shrinking(rng), tmp_path / "a.gif"
    with pytest.raises(UnknownNameError, match=r"movie `cones`.*`cone`"):
        animate(run, target, panel="cones")
    with pytest.raises(InvalidInputError, match="at least two frames; this run"):
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
