"""Layout of a picture: height, small print, characters, colours."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from numpy.random import Generator
from plotting_data import points

from meanfield import runs
from meanfield.errors import InvalidInputError
from meanfield.plotting import (
    Film,
    Look,
    height_of,
    panels,
    relative,
    save,
    titled_figure,
)
from meanfield.plotting._figure.picture import lines_of
from meanfield.plotting._figure.style import CYCLE
from meanfield.plotting._figure.styles import styles
from meanfield.plotting.movies.plays import movies
from meanfield.plotting.movies.stage import stage
from meanfield.plotting.reading.data import cloud
from meanfield.plotting.reading.description import description
from meanfield.plotting.tokens.views import projection
from meanfield.spec import parse

NOTE = (
    "softmax: A = [[1, 0.5], [0, −1]], V = 1, ε = 1; 1000 tokens, d = 2; Σ₀ = [[1.5, "
    "0], [0, 1]]; t from 0 to 20"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    path = tmp_path_factory.mktemp("room") / "run.zarr"
    keys = {"n": 6, "d": 2, "A": -1.0, "t": 0.2, "frames": 3}
    runs.execute(parse(keys), out=path)
    return runs.dataset(path)


def test_height_sets_the_picture_height(data: xr.Dataset) -> None:
    wide = Look(width=6.4, height=height_of("3.6in"), fontsize=6.0)
    for panel in ("tokens", "spectrum"):
        figure = panels[panel](data, wide)
        assert tuple(figure.get_size_inches()) == (6.4, 3.6)
    assert panels["tokens"](data, Look(height=3.0)).get_figheight() == 3.0


def test_small_print_can_be_switched_off(data: xr.Dataset) -> None:
    assert "d = 2" in panels["tokens"](data, Look()).get_supxlabel()
    assert panels["tokens"](data, Look(caption=False)).get_supxlabel() == ""


def test_a_too_small_picture_is_rejected(data: xr.Dataset, tmp_path: Path) -> None:
    figure = panels["spectrum"](data, Look(width=1.1, height=1.1))
    with pytest.raises(InvalidInputError, match=r"1\.1 by 1\.1 inches has no room for"):
        save(figure, tmp_path / "small.png")
    assert not (tmp_path / "small.png").exists()


@pytest.mark.parametrize("letters", range(30, 90, 7))
def test_lines_end_between_phrases(letters: int) -> None:
    lines = lines_of(NOTE, letters)
    assert " ".join(lines) == NOTE
    for whole in ("A = [[1, 0.5], [0, −1]]", "d = 2", "ε = 1", "t from 0 to 20"):
        assert any(whole in line for line in lines)


def test_missing_characters_are_reported_once(tmp_path: Path) -> None:
    figure = titled_figure(xr.Dataset(attrs={"title": "漢字"}), (4.0, 3.0))
    figure.add_subplot()
    with pytest.warns(UserWarning, match="No font contains 字漢, drawn as") as warnings:
        save(figure, tmp_path / "words")
    assert len(warnings) == 1


def test_a_wide_movie_has_as_much_room_as_a_square_one(data: xr.Dataset) -> None:
    film = Film(size=(640, 360))
    with Look().rc_context():
        figure, _ = stage(data, movies["tokens"].play(data, film), film)
        square, _ = stage(data, movies["tokens"].play(data, Film()), Film())
    heights = [f.axes[0].bbox.height / f.bbox.height for f in (figure, square)]
    assert heights[0] > 0.9 * heights[1]


def test_legends_show_file_names_without_folders() -> None:
    spec = parse({"init": "@/home/a/points.csv", "A": 1.0})
    data = xr.Dataset(attrs={"spec": spec.model_dump(exclude_unset=True)})
    assert "from @points.csv" in description(data)
    assert "/home" not in description(data)


def test_colours_of_groups_differ_on_dark() -> None:
    inks = styles["dark"].inks
    shades = [np.array(to_rgb(inks.get(c.lower(), c))) for c in CYCLE[:6]]
    gaps = [np.linalg.norm(a - b) for a, b in combinations(shades, 2)]
    assert min(gaps) > 0.25


@pytest.mark.parametrize(("reach", "is_seen"), [(4.0, True), (60.0, False)])
def test_a_movie_shows_all_tokens_but_for_outliers(
    data: xr.Dataset, reach: float, is_seen: bool
) -> None:
    x = np.random.default_rng(0).normal(size=(3, 400, 2))
    x[1, 7] = reach, 0.0
    tokens = xr.Dataset(
        {
            "x": (("time", "token", "coord"), x),
            "weight": ("token", np.full(400, 1 / 400)),
        },
        {"time": [0.0, 1.0, 2.0]},
        {"kind": "points"},
    )
    play = movies["tokens"].play(tokens, Film())
    with Look().rc_context():
        figure, show = stage(tokens, play, Film())
        show(1)
    low, high = figure.axes[0].get_xlim()
    assert (low < reach < high) == is_seen
    note = "the farthest tokens are outside the view"
    text = " ".join(figure.get_supxlabel().split())
    assert (note in text) == (not is_seen)


def test_the_caption_mentions_a_drift(rng: Generator) -> None:
    """Planes pooled over time include it; relative runs have none."""
    x = rng.normal(size=(1, 40, 5)) + np.linspace(0, 9, 4)[:, None, None]
    moving = points(x)
    note_of = lambda run: projection(cloud(run), 2).note
    assert note_of(moving).endswith("drift included")
    assert note_of(relative(moving)).endswith("pooled over time")
