"""The eigenvalues of the heads of a network, layer by layer, and their signs."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._figure.panels import annotate, titled_figure
from ._figure.style import CYCLE, INK, PALE, style

_SIGNS = {1: CYCLE[0], -1: CYCLE[1]}
_WIDE = 0.84  # of the room of a layer is filled by its heads
_LAYER, _MARGIN = 0.85, 1.5  # inches
_NARROW, _MANY = 0.62, 12  # inches of a layer, where there are more than so many
_LINEAR = 0.02  # of the largest modulus: below it the scale is linear
_ROOM = 5.0  # of the largest modulus: up to here there is room for words
_ROUNDING = 1e-9  # of its modulus: an imaginary part below it is rounding


class _Row(NamedTuple):
    """A matrix of each head: its letter, and how much of a layer has a sign."""

    name: str
    label: str
    said: Callable[[np.ndarray, int], str]


def _share(values: np.ndarray, sign: int) -> str:
    """What share of the sum of moduli has this sign."""
    moduli = np.abs(values)
    total = float(moduli.sum())
    return (
        f"{100 * float(moduli[sign * values > 0].sum()) / total:.0f} %" if total else ""
    )


def _count(values: np.ndarray, sign: int) -> str:
    """How many have this sign."""
    return str(int((sign * values > 0).sum()))


_ROWS = (
    _Row("score", r"$\lambda$ of $\mathrm{sym}\,A$", _share),
    _Row("value", r"$\mathrm{Re}\,\lambda$ of $V$", _count),
    _Row("product", r"$\mathrm{Re}\,\lambda$ of $VA$", _count),
)


@style()
def draw_head_eigenvalues(eigenvalues: xr.Dataset) -> Figure:
    """A mark for each eigenvalue, heads side by side in their layer.

    Args:
        eigenvalues: as `models.head_eigenvalues` has them, with a `title` among the
            attributes if the picture is to have one.

    Examples:
        >>> from meanfield import models
        >>> from meanfield.plotting import draw_head_eigenvalues
        >>> data = models.head_eigenvalues(models.load("minilm"))
        >>> draw_head_eigenvalues(data).axes[-1].get_xlabel()
        'layer; in each its heads, from 0, side by side'
    """
    n_layers = eigenvalues.sizes["layer"]
    wide = _LAYER if n_layers <= _MANY else _NARROW
    figure = titled_figure(eigenvalues, (max(wide * n_layers + _MARGIN, 6.6), 8.6))
    grid = figure.subplots(len(_ROWS), 1, sharex=True)
    for axes, row in zip(grid, _ROWS, strict=True):
        values = np.real(eigenvalues[row.name].values)
        _marks(axes, values)
        _words(axes, values, row.said)
        axes.set_ylabel(row.label)
    grid[-1].set(
        xticks=range(n_layers),
        xlim=(-0.5, n_layers - 0.5),
        xlabel="layer; in each its heads, from 0, side by side",
    )
    annotate(figure, *_notes(eigenvalues))
    return figure


def _marks(axes: Axes, values: np.ndarray) -> None:
    """Eigenvalues (layer, head, index) over their heads, by sign."""
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


def _words(
    axes: Axes, values: np.ndarray, said: Callable[[np.ndarray, int], str]
) -> None:
    """How much is above zero, and below, in each layer, at both ends."""
    for layer, of_layer in enumerate(values):
        for sign, colour in _SIGNS.items():
            axes.text(
                layer,
                0.99 if sign > 0 else 0.01,
                said(of_layer, sign),
                transform=axes.get_xaxis_transform(),
                color=colour,
                fontsize="small",
                ha="center",
                va="top" if sign > 0 else "bottom",
            )


def _notes(eigenvalues: xr.Dataset) -> Iterator[str]:
    score, product = eigenvalues["score"].values, eigenvalues["product"].values
    above, below = _count(score, 1), _count(score, -1)
    yield (
        "A = KᵀQ/ε, V: the value with the output projection; λ that vanish by the rank "
        "of a head are left out"
    )
    turning = np.abs(np.imag(product)) > _ROUNDING * np.abs(product)
    yield (
        f"numbers: of sym A the share in the sum of moduli ({above} λ are above zero, "
        f"{below} below); else how many there are; {100 * turning.mean():.0f} % of the "
        "λ of VA are not real; with M = VA, Σ changes at the rate M + Mᵀ, whose signs "
        "are not those of Re λ"
    )
