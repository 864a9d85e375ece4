"""Pictures and animations as files, and the imports of plotting."""

import os
import re
import subprocess
import sys
from pathlib import Path

import density_data
import numpy as np
import pytest
import xarray as xr
from numpy.random import Generator
from PIL import Image, ImageSequence
from plotting_data import ensemble, moving_cases, shrinking

from meanfield.errors import InvalidInputError, ResourceError, UnsupportedError
from meanfield.plotting import Film, Look, animate, panels, save
from meanfield.plotting._writing.files import find_ffmpeg


def test_save_writes_both_formats_or_the_named_one(
    rng: Generator, tmp_path: Path
) -> None:
    figure = panels["disc"](shrinking(rng))
    assert save(figure, tmp_path / "a") == (tmp_path / "a.pdf", tmp_path / "a.png")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert save(figure, str(tmp_path / "b.svg")) == (tmp_path / "b.svg",)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.pdf",
        "a.png",
        "b.svg",
    ]


def test_the_same_picture_gives_the_same_vector_file(
    rng: Generator, tmp_path: Path
) -> None:
    dataset = shrinking(rng)
    for name in ("a.pdf", "b.pdf"):
        save(panels["tokens"](dataset), tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_an_unwritable_picture_is_a_one_line_error(
    rng: Generator, tmp_path: Path
) -> None:
    dataset = shrinking(rng)
    figure = panels["disc"](dataset)
    with pytest.raises(InvalidInputError, match=r"one of \.pdf, .*; got `\.doc`"):
        save(figure, tmp_path / "a.doc")
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(ResourceError, match="cannot be written") as error_info:
            save(figure, folder / "a")
        assert "\n" not in str(error_info.value)
        with pytest.raises(ResourceError, match="cannot be written") as error_info:
            animate(dataset, folder / "a.gif")
        assert "\n" not in str(error_info.value)


@pytest.mark.parametrize(
    "dataset", [pytest.param(data, id=name) for name, data in moving_cases()]
)
def test_an_animation_has_a_frame_per_time_and_reports_each(
    tmp_path: Path, dataset: xr.Dataset
) -> None:
    calls = []
    path = animate(
        dataset,
        tmp_path / "a.gif",
        film=Film(fps=10, seconds=0.5, hold=0.0),
        progress=lambda result, total: calls.append((result, total)),
    )
    assert calls == [(i, 5) for i in range(1, 6)]
    with Image.open(path) as movie:
        assert len(list(ImageSequence.Iterator(movie))) == 5
        assert movie.info["duration"] == 100  # milliseconds


def test_an_animation_of_a_thousand_tokens_is_modest(
    rng: Generator, tmp_path: Path
) -> None:
    dataset = shrinking(rng, n=1000, frames=12)
    path = animate(dataset, tmp_path / "a.gif", film=Film(seconds=0.6))
    assert path.stat().st_size < 3_000_000 * 12 / 60


@pytest.mark.parametrize(
    ("film", "message"),
    [
        ({"fps": 0}, "`fps` must be above 0 and at most 100; got 0"),
        ({"fps": 101}, "got 101"),
        (
            {"size": (99, 200)},
            "`size` must be from 100 to 4096 pixels in width and height; got 99x",
        ),
        ({"size": (200, 5000)}, "200x5000"),
        ({"trails": -1}, "`trails` must be from 0 to 1000; got -1"),
        ({"loop": 1001}, "`loop` must be from 0 to 1000"),
        ({"hold": -1.0}, "`hold` must be from 0 to 3600 seconds; got -1"),
        ({"seconds": 0.0}, "`seconds` must be above 0 and at most 3600; got 0"),
        ({"turn": 1e5}, "`turn` must be from -3600° to 3600°; got 100000"),
    ],
)
def test_movie_options_are_validated(film: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Film(**film)


@pytest.mark.parametrize(
    ("name", "look", "film", "message"),
    [
        ("a.avi", {}, {}, r"a `.gif`, `.mp4` or `.webm` file; got `a.avi`"),
        ("a.mp4", {}, {"loop": 0}, "works in a `.gif`, but not in a `.mp4`"),
        ("a.gif", {"width": 3.0}, {}, "`width` is for pictures; use `size` for a"),
        ("a.gif", {"height": 3.0}, {}, "`height` is for pictures; use `size`"),
        ("a.gif", {}, {"turn": 90.0}, "`turn` is for movies of tokens or a"),
    ],
)
def test_animation_arguments_are_validated(
    rng: Generator, tmp_path: Path, name: str, look: dict, film: dict, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        animate(shrinking(rng), tmp_path / name, look=Look(**look), film=Film(**film))
    assert list(tmp_path.iterdir()) == []


def test_a_movie_of_a_density_rejects_token_options(tmp_path: Path) -> None:
    run = density_data.gaussian_on_line(np.ones(2))
    for look, film, idle in (
        (Look(colour="norm"), Film(), "colour"),
        (Look(), Film(trails=3), "trails"),
    ):
        with pytest.raises(InvalidInputError, match=f"`{idle}` is for movies of tok"):
            animate(run, tmp_path / "a.gif", look=look, film=film)


def test_without_ffmpeg_a_video_is_rejected_with_alternatives(
    rng: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UnsupportedError, match=r"ffmpeg, which is not.*`a.gif`"):
        animate(shrinking(rng), tmp_path / "a.mp4")


def test_a_failed_video_reports_the_last_line_of_ffmpeg(
    rng: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the length of its output, and though it reads no frame."""
    program = tmp_path / "ffmpeg"
    shell = "head -c 300000 /dev/zero >&2; echo >&2; echo no codec here >&2; exit 3"
    program.write_text(f"#!/bin/sh\n{shell}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ResourceError, match=r"`.mp4`: no codec here. Write a"):
        animate(shrinking(rng), tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == [program]


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_a_video_has_its_frames_turns_hold_and_size(
    rng: Generator, tmp_path: Path, kind: str
) -> None:
    """As the program itself reads it; from a package where it is not on the PATH."""
    film = Film(fps=10, size=(301, 220), loop=2, hold=0.3, seconds=0.3)
    path = animate(shrinking(rng, frames=3), tmp_path / f"a.{kind}", film=film)
    program = find_ffmpeg()
    assert program is not None
    command = [program, "-hide_banner", "-i", str(path), "-f", "null", "-"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"Video: .*302x220.* 10 fps", result.stderr)
    assert re.findall(r"frame= *(\d+)", result.stderr)[-1] == "12"


def test_a_gif_has_its_turns_and_holds_its_last_frame(
    rng: Generator, tmp_path: Path
) -> None:
    run = shrinking(rng, frames=2)
    for turns, loops in ((None, 0), (0, 0), (3, 2), (1, None)):
        film = Film(fps=10, loop=turns, hold=1.5, seconds=0.2, size=(200, 220))
        with Image.open(animate(run, tmp_path / "a.gif", film=film)) as movie:
            assert movie.size == (200, 220)
            durations = [
                frame.info["duration"] for frame in ImageSequence.Iterator(movie)
            ]
            assert durations == [100, 1600]
            assert movie.info.get("loop") == loops


def test_an_animation_shows_one_run(rng: Generator, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"isel\(run=0\)"):
        animate(ensemble(rng, "points"), tmp_path / "a.gif")


def test_plotting_loads_no_jax() -> None:
    code = (
        "import sys, meanfield.plotting as p; "
        "assert 'matplotlib' not in sys.modules; p.panels, p.save, p.animate; "
        "print([m for m in ('jax', 'equinox', 'diffrax') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
