"""Texts of movies: legends, headlines, small print, and labels of moving tokens."""

import numpy as np
import pytest
import xarray as xr
from density_data import gaussian_on_line
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from movie_data import (
    SHORT,
    TALL,
    WIDE,
    blow_up_on_line,
    draw_frame,
    joined_text,
    pair_with_blow_up,
)
from numpy.random import Generator
from plotting_data import points, shrinking

from meanfield.plotting import Film, Look, panels
from meanfield.plotting._figure.style import CYCLE
from meanfield.plotting.movies.headline import headlines, layers_shown, size_note
from meanfield.plotting.movies.plays import movies
from meanfield.plotting.movies.stage import stage
from meanfield.plotting.reading.data import cloud
from meanfield.plotting.tokens.labels import labels
from meanfield.plotting.tokens.views import robust_windows
from meanfield.plotting.tokens.words import word_order


@pytest.fixture
def pair() -> xr.Dataset:
    return pair_with_blow_up()


def test_the_legend_shows_endings_with_their_marks(pair: xr.Dataset) -> None:
    look, film = Look(), Film(size=WIDE)
    data = look.attach_to(pair)
    with look.rc_context():
        figure, show = stage(data, movies["disc"].play(data, film), film)
        show(0)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:2] == ["will end: finished", "will end: blow-up"]
    dots = [p for p in figure.axes[0].collections if isinstance(p, PathCollection)]
    shapes = {np.shape(part.get_paths()[0].vertices) for part in dots}
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
    _, _, texts = draw_frame(data, size, Look(ylim=(-2.0, 2.0)), frame=-1)
    assert "up to 3 of 50 tokens are outside the view" in joined_text(texts)
    for look in (Look(), Look(ylim=(-4.0, 4.0))):
        assert "outside" not in joined_text(draw_frame(data, size, look)[2])
    line_of = data.isel(coord=[1])
    _, _, texts = draw_frame(line_of, size, Look(ylim=(-3.0, 3.0)))
    assert "up to 2 of 50 tokens are outside the view" in joined_text(texts)


@pytest.mark.slow
def test_legends_name_the_curves_and_the_last_frame_its_ending(
    rng: Generator, pair: xr.Dataset
) -> None:
    line_of, space = shrinking(rng, d=1), shrinking(rng, d=3)
    for data, name, end in (
        (shrinking(rng), "2σ ellipse", "finished"),
        (line_of, "mean ± 2σ", "finished"),
        (space, "2σ ellipsoid", "finished"),
        (
            gaussian_on_line(np.linspace(1.0, 2.0, 5)),
            "quantiles",
            "finished: last time reached",
        ),
        (pair.isel(run=0), "2σ, earlier", "finished"),
        (pair.isel(run=1), "mean", "blow-up, t* = 2.5"),
        (pair, "isotropic", "finished: 1 of 2"),
    ):
        first, last = (
            joined_text(draw_frame(data, WIDE, Look(), frame)[2]) for frame in (0, -1)
        )
        assert name in first
        assert end in last
        assert end not in first.replace("finished blow-up", "")


def test_the_view_follows_labelled_tokens_only(rng: Generator) -> None:
    steps = np.array([[0.0, 0.0], [12.0, 0.0], [24.0, 3.0]])
    x = rng.normal(size=(8, 2)) + steps[:, None]
    words = points(x).assign_coords(word=("token", [*"abcdefgh"]))
    for data, is_followed in ((points(x), False), (words, True)):
        views, note = robust_windows(cloud(data))
        assert ("follows" in note) == is_followed
        assert (views[0].half_width < 10) == is_followed
        for view, places in zip(views, x, strict=True):
            assert (np.abs(places - view.centre) <= view.half_width).all()


def test_labels_avoid_the_tails_of_dots() -> None:
    dots, sizes = np.full((1, 1, 2), 100.0), np.array([[40.0, 10.0]])
    page = {"ranks": np.zeros(1), "room": np.full(2, 200.0)}
    free = labels(dots, sizes, **page).offsets[0, 0]
    tail = np.stack([np.linspace(105, 160, 12), np.full(12, 108.0)], axis=-1)
    offset = labels(dots, sizes, **page, tails=tail[None]).offsets[0, 0]

    def is_crossed(corner: np.ndarray) -> bool:
        inside = (tail >= corner) & (tail <= corner + sizes[0])
        return bool(inside.all(axis=1).any())

    assert is_crossed(dots[0, 0] + free)
    assert not is_crossed(dots[0, 0] + offset)


@pytest.mark.parametrize("kind", ["gaussian", "density"])
def test_legend_marks_stand_beside_their_text_in_a_wide_movie(kind: str) -> None:
    gauss = blow_up_on_line(np.array([0.0, 0.1, 0.2]))
    data = gauss if kind == "gaussian" else gaussian_on_line(np.linspace(1.0, 2.0, 5))
    figure, axes, texts = draw_frame(data, WIDE, Look(style="talk"))
    picture = axes.get_tightbbox()
    assert picture is not None
    assert axes.bbox.height > 0.75 * figure.bbox.height
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 > picture.x1
        assert box.x1 <= figure.bbox.x1
    time = max(texts, key=lambda text: text.get_fontsize())
    assert time.get_text().startswith("t = ")


def test_a_long_legend_avoids_the_small_print(rng: Generator) -> None:
    x = np.repeat(np.arange(6.0), 4)[:, None] + 1e-3 * rng.random((24, 1))
    spec = {"A": -1.0, "n": 24, "d": 1, "init": "antithetic", "t": 2.0}
    data = points(np.stack([x, x])).assign_attrs(spec=spec, title="softmax: tokens")
    look = Look(style="talk", link=0.1)
    _, _, texts = draw_frame(data, WIDE, look)
    boxes = [text.get_window_extent() for text in texts]
    assert sum("cluster, " in text.get_text() for text in texts) == 6
    for index, box in enumerate(boxes):
        assert box.y0 >= 0
        assert not any(box.overlaps(second) for second in boxes[:index])


def test_the_box_is_named_where_it_is_drawn() -> None:
    for half in (4.0, 40.0):
        _, axes, texts = draw_frame(
            gaussian_on_line(np.ones(5), half=half), WIDE, Look()
        )
        box = [part for part in axes.lines if part.get_color() == CYCLE[2]]
        low, high = axes.get_xlim()
        ends = [np.asarray(part.get_xdata())[0] for part in box]
        assert ("box" in joined_text(texts)) == any(low <= x <= high for x in ends)
        assert ("box" in joined_text(texts)) == (half < 10)


def test_labels_are_inside_and_do_not_overlap(rng: Generator) -> None:
    dots = 200 * rng.random((1, 60, 2)) + np.linspace(0, 40, 12)[:, None, None]
    sizes = np.stack([8 + 30 * rng.random(60), np.full(60, 10.0)], axis=-1)
    room = np.array([260.0, 240.0])
    placement = labels(dots, sizes, ranks=rng.integers(0, 3, 60), room=room)
    low = dots + placement.offsets
    high, is_visible = low + sizes, placement.opacity > 0
    assert (is_visible.sum(axis=1) >= 20).all()
    for frame in range(12):
        boxes = [
            (low[frame, i], high[frame, i]) for i in np.flatnonzero(is_visible[frame])
        ]
        for index, (a, b) in enumerate(boxes):
            assert (a >= 0).all()
            assert (b <= room).all()
            is_disjoint = [((b < c) | (d < a)).any() for c, d in boxes[:index]]
            assert all(is_disjoint)


def test_labels_of_resting_tokens_do_not_move(rng: Generator) -> None:
    dots = np.broadcast_to(100 * rng.random((20, 2)), (6, 20, 2))
    sizes = np.full((20, 2), 12.0)
    placement = labels(dots, sizes, ranks=np.zeros(20), room=np.full(2, 120.0))
    assert (placement.offsets == placement.offsets[0]).all()
    assert (np.isin(placement.opacity, (0.0, 1.0))).all()


def test_no_label_is_half_faded_in_the_last_frame() -> None:
    dots = np.array([[[50.0, 50.0]], [[50.0, 50.0]], [[119.0, 119.0]]])
    size, room = np.full((1, 2), 12.0), np.full(2, 120.0)
    placement = labels(dots, size, ranks=np.zeros(1), room=room)
    assert placement.opacity[-1] in (0.0, 1.0)


def test_informative_labels_come_first() -> None:
    words = np.array(["[CLS]", "a", "cat", "sleeps", ".", "warm"])
    assert [words[i] for i in word_order(words)] == [
        "sleeps",
        "warm",
        "cat",
        "a",
        "[CLS]",
        ".",
    ]


def test_words_of_a_close_cluster_are_joined_to_their_dots(rng: Generator) -> None:
    x = np.stack([rng.normal(size=(7, 2)), 0.05 * rng.normal(size=(7, 2))])
    words = ["mean", "field", "moves", "every", "word", "short", "sentence"]
    run = points(x).assign_coords(word=("token", words))
    axes = panels["tokens"](run).axes[0]
    drawn_words = {text.get_text() for text in axes.texts}
    assert len(drawn_words & set(words)) >= 6
    lines = [np.asarray(line.get_xydata()) for line in axes.lines]
    starts = np.array([line[0] for line in lines if len(line) == 2])
    assert len(starts) > 0
    assert np.abs(starts[:, None] - x[-1]).max(axis=-1).min(axis=1).max() < 1e-12


def test_the_headline_states_the_layer_and_its_interval() -> None:
    spec = {"model": "minilm", "text": "a cat", "model_layers": [3, 5]}
    data = xr.Dataset(coords={"time": [0.0, 2.0]}, attrs={"spec": spec})
    layers = layers_shown(data, np.array([0.0, 0.9, 1.0, 2.0]))
    assert layers == ["layer 3 (1 of 2)"] * 2 + ["layer 5 (2 of 2)"] * 2
    assert layers_shown(data.assign_attrs(spec=None), np.zeros(2)) == ["", ""]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (np.linspace(0.0, 1.0, 150), ["0.000", "0.007", "0.013", "0.020"]),
        (np.linspace(0.0, 3.0, 61), ["0.00", "0.05", "0.10", "0.15"]),
        (np.arange(5.0) / 4, ["0.00", "0.25", "0.50", "0.75"]),
        (np.arange(0.0, 300.0), ["0", "1", "2", "3"]),
        (np.array([5.0, 5.0, 5.0 + 2e-5, 5.0 + 4e-5]), ["5.00000"] * 2 + ["5.00002"]),
        (np.array([0.0, 0.1, 0.2, 0.2 + 1e-8]), ["0.0", "0.1", "0.2", "0.2"]),
        (np.array([0.0, 0.5, 1.0 - 1e-15, 1.0]), ["0.0", "0.5", "1.0", "1.0"]),
        (np.geomspace(1e-4, 30.0, 61), ["0.000"] * 4),
        (np.zeros(2), ["0", "0"]),
    ],
)
def test_headline_times_have_enough_digits(
    times: np.ndarray, expected: list[str]
) -> None:
    lines = headlines(xr.Dataset(), times, lambda _: [])
    assert [line[0].removeprefix("t = ") for line in lines][: len(expected)] == expected


def test_sizes_have_three_digits_and_are_finite() -> None:
    sizes = (0.0, 0.00123456, 9.876, 9.999, 999.7, 1234.5, 2.345e5, 2e-7)
    texts = [size_note(size).split()[-1] for size in sizes]
    plain, powers = ["0", "0.00123", "9.88", "10.0"], ["1.00·10³", "1.23·10³"]
    assert texts == [*plain, *powers, "2.34·10⁵", "2.00·10⁻⁷"]
    assert size_note(np.nan) == size_note(np.inf) == ""


def test_small_print_mentions_few_frames(rng: Generator, pair: xr.Dataset) -> None:
    film = Film(fps=10, seconds=1.0)
    slow = points(rng.normal(size=(8, 2)) * np.linspace(1, 0.9, 5)[:, None, None])
    density = gaussian_on_line(np.linspace(1.0, 2.0, 5))
    near = "5 stored frames: straight lines between near ones, others held"
    for data, panel, note in (
        (slow, "tokens", "5 stored frames, straight lines between them"),
        (shrinking(rng), "tokens", "5 stored frames, each held until the next"),
        (pair, "cone", near),
        (density, "density", "5 stored frames, each as long as the next"),
    ):
        for movie, is_said in ((film, True), (SHORT, False)):
            with Look().rc_context():
                figure, _ = stage(data, movies[panel].play(data, movie), movie)
            text = " ".join(figure.get_supxlabel().split())
            assert (note in text) == is_said


def test_labels_stay_within_the_chosen_limits() -> None:
    x = np.array([[0.0, 0.0], [1.0, 0.3], [2.02, -0.3], [9.0, 1.0]])
    words = ["centre", "near", "beyond", "faraway"]
    data = points(np.stack([x, 0.9 * x])).assign_coords(word=("token", words))
    look = Look(xlim=(-0.5, 2.0))
    data = look.attach_to(data)
    with look.rc_context():
        figure, show = stage(data, movies["tokens"].play(data, SHORT), SHORT)
        show(0)
        figure.canvas.draw()
        axes = figure.axes[0]
        scale = axes.transData.transform([[0, 0], [1, 1]])
        assert np.ptp(scale[:, 0]) == pytest.approx(np.ptp(scale[:, 1]))
        visible_labels = {t.get_text(): t for t in axes.texts if t.get_visible()}
        assert {"centre", "near"} == set(visible_labels) & set(words)
        for text in visible_labels.values():
            box, room = text.get_window_extent(), axes.bbox
            assert room.x0 - 3 <= box.x0
            assert box.x1 <= room.x1 + 3
