"""Pictures and animations as files, and what importing them loads."""

import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
from numpy.random import Generator
from PIL import Image, ImageSequence
from plotting_data import ensemble, moving_cases, shrinking

from meanfield.errors import InvalidInputError, ResourceError
from meanfield.plotting import animate, panels, save


def test_save_writes_both_formats_or_the_one_that_is_named(
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


def test_what_cannot_be_written_is_one_line(rng: Generator, tmp_path: Path) -> None:
    dataset = shrinking(rng)
    figure = panels["disc"](dataset)
    with pytest.raises(InvalidInputError, match=r"`\.doc`; use \.pdf"):
        save(figure, tmp_path / "a.doc")
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(ResourceError, match="cannot be written") as caught:
            save(figure, folder / "a")
        assert "\n" not in str(caught.value)
        with pytest.raises(ResourceError, match="cannot be written") as caught:
            animate(dataset, folder / "a.gif")
        assert "\n" not in str(caught.value)


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
        fps=10,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(i, 5) for i in range(1, 6)]
    with Image.open(path) as movie:
        assert len(list(ImageSequence.Iterator(movie))) == 5
        assert movie.info["duration"] == 100  # milliseconds


def test_an_animation_of_a_thousand_tokens_is_modest(
    rng: Generator, tmp_path: Path
) -> None:
    dataset = shrinking(rng, n=1000, frames=12)
    path = animate(dataset, tmp_path / "a.gif")
    assert path.stat().st_size < 3_000_000 * 12 / 60


@pytest.mark.parametrize(
    ("name", "fps", "message"),
    [("a.mp4", 10, r"`\.gif` file"), ("a.gif", 0, "`fps`"), ("a.gif", 101, "`fps`")],
)
def test_an_animation_refuses_what_it_cannot_do(
    rng: Generator, tmp_path: Path, name: str, fps: int, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        animate(shrinking(rng), tmp_path / name, fps=fps)


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
