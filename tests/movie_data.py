"""Runs for tests of movies, and frames as they are drawn."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from plotting_data import gaussian

from meanfield.plotting import Film, Look
from meanfield.plotting.movies.plays import default_movie, movies
from meanfield.plotting.movies.stage import stage

SHORT = Film(fps=10, seconds=0.4, size=(240, 250))
CODES = {"flag_values": [0, 2], "flag_meanings": "finished blow-up"}
WIDE, TALL = (640, 360), (432, 450)


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


def pair_with_blow_up() -> xr.Dataset:
    """One Gaussian that stays, and one that blows up at time 2.5."""
    sizes = np.array([[1.0, 1.1, 1.2, 1.3, 1.4], [1.0, 2.0, 9.0, 1e4, 1e4]])
    factor = np.sqrt(sizes)[..., None, None] * np.diag([1.0, 0.5])
    return gaussians(factor, [4.0, 2.5], [0, 2])


def draw_frame(
    data: xr.Dataset, size: tuple[int, int], look: Look, frame: int = 0
) -> tuple[Figure, Axes, list[Text]]:
    """A drawn frame: the figure, its axes, and all texts outside them."""
    data, film = look.attach_to(data), Film(size=size)
    with look.rc_context():
        play = movies[default_movie(data)].play(data, film)
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


def joined_text(texts: list[Text]) -> str:
    return " ".join(" ".join(text.get_text() for text in texts).split())


def softmax_sizes(times: np.ndarray | float) -> np.ndarray:
    """A Gaussian of variance 2 under softmax with A = V = 1, which has t* = 1/4."""
    return np.sqrt(2.0 / (1.0 - 4.0 * times))


def blow_up_on_line(times: np.ndarray) -> xr.Dataset:
    """The same Gaussian on a line, with a last frame just before its blow-up."""
    times = np.append(times, 0.25 - 1e-9)
    factor = softmax_sizes(times)[:, None, None]
    data = gaussian(np.zeros((times.size, 1)), factor, status=2, t_star=0.25)
    return data.assign_coords(time=times)
