"""The panel `rank`: effective rank of the covariance over time."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.spectrum import effective_rank

from ._figure.bands import annotate_ending, draw, name_time
from ._figure.joint import Row, Runs, draw_rows, joint_panel
from ._figure.panels import add_subject, registered_panel, titled_figure
from ._figure.style import INK
from .reading.data import check_finite, values
from .reading.observables import map_runs, rounded_spectrum

_LABEL = "effective rank"
_LEAST_MARGIN = 0.01  # so that a constant rank is not a picture of its rounding


@registered_panel("rank")
def rank(dataset: xr.Dataset) -> Figure:
    r"""Effective rank of $\Sigma(t)$, between 1 for a line and $d$ for a ball.

    An ensemble is drawn as its median and its 10–90 % band.

    Raises:
        InvalidInputError: if $d = 1$, or the dataset contains no tokens, Gaussian or
            density.
    """
    ranks = _ranks(dataset)[0]
    check_finite(ranks)
    figure = titled_figure(add_subject(dataset, _LABEL), (6.6, 4.6))
    axes = figure.add_subplot()
    draw_ranks(axes, values(dataset, "time", ("time",)), ranks)
    name_time(axes, dataset)
    annotate_ending(figure, dataset)
    return figure


@joint_panel("rank", "xlim", "ylim", "xscale", "yscale")
def joint_rank(runs: Runs) -> Figure:
    r"""Effective rank of $\Sigma(t)$ of several runs."""
    return draw_rows(
        runs, _LABEL, Row(_LABEL, [*map(_ranks, runs.values())], frame_ranks)
    )


def draw_ranks(axes: Axes, times: np.ndarray, ranks: np.ndarray) -> None:
    """Draw effective ranks of shape (…, time) over time."""
    frame_ranks(axes, ranks)
    draw(axes, times, ranks, INK)
    axes.set_ylabel(_LABEL)
    axes.grid(visible=True, axis="y")


def frame_ranks(axes: Axes, ranks: np.ndarray) -> None:
    """Set limits that contain all ranks."""
    low, high = float(np.nanmin(ranks)), float(np.nanmax(ranks))
    margin = max(0.06 * (high - low), _LEAST_MARGIN)
    axes.set_ylim(low - margin, high + margin)


def _ranks(dataset: xr.Dataset) -> np.ndarray:
    """The effective rank, of shape (1, …, time)."""
    spectra = map_runs(dataset, rounded_spectrum)
    if spectra.shape[-1] == 1:
        raise InvalidInputError(
            "In one dimension the effective rank is always 1: draw the variance with "
            "the panel `spectrum`."
        )
    return effective_rank(spectra)[None]
