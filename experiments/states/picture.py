"""A branch of stationary states against the diffusivity, as a picture."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanfield.plotting import titled_figure

_STABLE, _UNSTABLE, _GREY = "#0072b2", "#d55e00", "#888888"


def draw_branch(dataset: xr.Dataset) -> Figure:
    """Order parameter and free energy of stationary states against the diffusivity.

    Stable states are drawn solid, unstable ones dashed. The uniform density is the line
    at zero.
    """
    figure = titled_figure(dataset, (7.0, 5.4))
    has_energy = bool(np.isfinite(dataset["free_energy"]).all())
    rows = figure.subplots(1 + has_energy, 1, sharex=True, squeeze=False)[:, 0]
    _draw(rows[0], dataset, dataset["order"].values[:, 0])
    rows[0].set_ylabel("order parameter $m_1$")
    if has_energy:
        _draw(rows[1], dataset, dataset["free_energy"].values - _uniform(dataset))
        rows[1].set_ylabel("free energy − uniform")
    rows[-1].set_xlabel(r"diffusivity $\kappa$")
    entries = [
        Line2D([], [], color=_STABLE, label="stable"),
        Line2D([], [], color=_UNSTABLE, linestyle="--", label="unstable"),
        Line2D([], [], color=_GREY, linestyle=":", label="uniform loses stability"),
    ]
    rows[0].legend(handles=entries)
    return figure


def _uniform(dataset: xr.Dataset) -> float:
    """The free energy of the uniform density, which does not depend on κ."""
    return float(dataset.attrs["uniform_free_energy"])


def _draw(axes: Axes, dataset: xr.Dataset, values: np.ndarray) -> None:
    """Draw a quantity along the branch, and mark the threshold and the transition."""
    kappa = dataset["kappa"].values
    is_stable = dataset["growth_rate"].values <= 1e-9 * kappa
    for mask, colour, pattern in (
        (is_stable, _STABLE, "-"),
        (~is_stable, _UNSTABLE, "--"),
    ):
        joined = mask | np.append(mask[1:], False)  # lines meet where stability changes
        axes.plot(kappa, np.where(joined, values, np.nan), pattern, color=colour)
    axes.axhline(0, color=_GREY, linewidth=0.8)
    axes.axvline(dataset.attrs["threshold"], color=_GREY, linestyle=":", linewidth=1)
    if np.isfinite(dataset.attrs["transition"]):
        axes.axvline(dataset.attrs["transition"], color=_GREY, linewidth=0.8)
    axes.grid(visible=True, axis="y")
