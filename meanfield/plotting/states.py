"""The panel `states`: a branch of stationary states against the diffusivity."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError

from ._figure.marks import entry, legend
from ._figure.panels import annotate, registered_panel, titled_figure
from ._figure.style import CYCLE, GREY

_STABLE, _UNSTABLE = CYCLE[0], CYCLE[1]


@registered_panel("states")
def states(dataset: xr.Dataset) -> Figure:
    """Order parameter and free energy of stationary states against the diffusivity.

    Stable states are drawn solid, unstable ones dashed. The uniform density is the line
    at zero.

    Raises:
        InvalidInputError: if the dataset holds no branch of states.
    """
    if dataset.attrs.get("kind") != "states":
        raise InvalidInputError(
            "The panel `states` draws a branch of `meanfield states`; this dataset is "
            "another one."
        )
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
        entry("stable", _STABLE),
        entry("unstable", _UNSTABLE, linestyle="--"),
        entry("uniform loses stability", GREY, linestyle=":"),
    ]
    legend(rows[0], entries, len(entries))
    annotate(figure, *_notes(dataset))
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
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.axvline(dataset.attrs["threshold"], color=GREY, linestyle=":", linewidth=1)
    if np.isfinite(dataset.attrs["transition"]):
        axes.axvline(dataset.attrs["transition"], color=GREY, linewidth=0.8)
    axes.grid(visible=True, axis="y")


def _notes(dataset: xr.Dataset) -> list[str]:
    """The threshold, the folds and the transition, in words."""
    notes = [f"uniform unstable below κ = {dataset.attrs['threshold']:.6g}"]
    notes += [f"fold at κ = {kappa:.6g}" for kappa in dataset.attrs["folds"]]
    if np.isfinite(dataset.attrs["transition"]):
        notes.append(f"equal free energies at κ = {dataset.attrs['transition']:.6g}")
    return notes
