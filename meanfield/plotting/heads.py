"""Eigenvalues of the attention heads of a network by layer, and their signs."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._figure.panels import annotate, titled_figure
from ._figure.style import CYCLE, INK, PALE, style

_SIGNS = {1: CYCLE[0], -1: CYCLE[1]}
_WIDE = 0.84  # share of a layer's width that the heads of the layer fill
_LAYER, _MARGIN = 0.85, 1.5  # widths of a layer and of the margins, in inches
# If there are more than `_MAX_LAYERS` layers, each is only `_NARROW` inches wide.
_NARROW, _MAX_LAYERS = 0.62, 12
_LINEAR = 0.02  # the scale is linear below this share of the largest modulus
_ROOM = 5.0  # ratio of axis limit to largest modulus; leaves room for text
_ROUNDING = 1e-9  # relative size below which imaginary parts are rounding errors


def _share(values: np.ndarray, sign: int) -> str:
    """The share of values with this `sign` in the sum of all moduli, in percent."""
    moduli = np.abs(values)
    part, total = float(moduli[sign * values > 0].sum()), float(moduli.sum())
    return f"{100 * part / total:.0f} %" if total else ""


def _count(values: np.ndarray, sign: int) -> str:
    """The number of values with this `sign`."""
    return str(int((sign * values > 0).sum()))


# For each matrix: the label of its row, and a summary by sign.
_ROWS = {
    "score": (r"$\lambda$ of $\mathrm{sym}\,A$", _share),
    "value": (r"$\mathrm{Re}\,\lambda$ of $V$", _count),
    "product": (r"$\mathrm{Re}\,\lambda$ of $VA$", _count),
}


@style()
def draw_head_eigenvalues(eigenvalues: xr.Dataset) -> Figure:
    """Draw the eigenvalues of each head as marks; a layer's heads are side by side.

    Args:
        eigenvalues: as returned by `models.head_eigenvalues`; its attribute `title`, if
            any, becomes the title.

    Examples:
        >>> from meanfield import models
        >>> from meanfield.plotting import draw_head_eigenvalues
        >>> data = models.head_eigenvalues(models.load("minilm"))
        >>> draw_head_eigenvalues(data).axes[-1].get_xlabel()
        'layer; in each its heads, from 0, side by side'
    """
    n_layers = eigenvalues.sizes["layer"]
    wide = _LAYER if n_layers <= _MAX_LAYERS else _NARROW
    figure = titled_figure(eigenvalues, (max(wide * n_layers + _MARGIN, 6.6), 8.6))
    grid = figure.subplots(len(_ROWS), 1, sharex=True)
    for axes, (name, (label, summary)) in zip(grid, _ROWS.items(), strict=True):
        values = np.real(eigenvalues[name].values)
        _marks(axes, values)
        _write_summaries(axes, values, summary)
        axes.set_ylabel(label)
    grid[-1].set(
        xticks=range(n_layers),
        xlim=(-0.5, n_layers - 0.5),
        xlabel="layer; in each its heads, from 0, side by side",
    )
    annotate(figure, *_notes(eigenvalues))
    return figure


def _marks(axes: Axes, values: np.ndarray) -> None:
    """Draw eigenvalues (layer, head, index) at their head's place, coloured by sign."""
    n_layers, n_heads, _ = values.shape
    offsets = _WIDE * ((np.arange(n_heads) + 0.5) / n_heads - 0.5)
    heads = np.arange(n_layers)[:, None, None] + offsets[None, :, None]
    places, width = np.broadcast_to(heads, values.shape), 0.4 * _WIDE / n_heads
    for sign, colour in _SIGNS.items():
        mask = sign * values > 0
        x, y = places[mask], values[mask]
        axes.hlines(y, x - width, x + width, colour, linewidth=0.6, rasterized=True)
    largest = float(np.abs(values).max()) or 1.0
    lowest, highest = np.floor(np.log10([_LINEAR * largest, _ROOM * largest]))
    decades = 10.0 ** np.arange(lowest + 1, highest + 1)
    axes.set_yscale("symlog", linthresh=10.0**lowest, linscale=0.5)
    axes.set_yticks([*-decades, 0.0, *decades])
    axes.set_ylim(-_ROOM * largest, _ROOM * largest)
    axes.axhline(0.0, color=INK, linewidth=0.7)
    for edge in np.arange(n_layers - 1) + 0.5:
        axes.axvline(edge, color=PALE, linewidth=0.8, zorder=0)


def _write_summaries(
    axes: Axes, values: np.ndarray, summary: Callable[[np.ndarray, int], str]
) -> None:
    """Write a summary of positive values at the top, of negative ones at the bottom."""
    for layer, layer_values in enumerate(values):
        for sign, colour in _SIGNS.items():
            axes.text(
                layer,
                0.99 if sign > 0 else 0.01,
                summary(layer_values, sign),
                transform=axes.get_xaxis_transform(),
                color=colour,
                fontsize="small",
                ha="center",
                va="top" if sign > 0 else "bottom",
            )


def _notes(eigenvalues: xr.Dataset) -> Iterator[str]:
    score, product = eigenvalues["score"].values, eigenvalues["product"].values
    n_pos, n_neg = _count(score, 1), _count(score, -1)
    yield (
        "A = KᵀQ/ε, V: the value with the output projection; λ that vanish by the rank "
        "of a head are left out"
    )
    turning = np.abs(np.imag(product)) > _ROUNDING * np.abs(product)
    yield (
        f"numbers: of sym A the share in the sum of moduli ({n_pos} λ are above zero, "
        f"{n_neg} below); else how many there are; {100 * turning.mean():.0f} % of the "
        "λ of VA are not real; with M = VA, Σ changes at the rate M + Mᵀ, whose signs "
        "are not those of Re λ"
    )
