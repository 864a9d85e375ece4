"""Panels that draw a matrix as lines between two clouds.

The width of the line from a query to a key is proportional to the entry of the pair.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

QUERY, KEY, LINE = "C0", "C1", "#4d4d4d"
_WIDTH = 6.0  # width of a line of weight one, in typographic points
_SIZE = 7.0  # diameter of a token of mass one, in typographic points
_SAMPLES = (0.1, 0.5, 1.0)


def scaled_plans(
    matrices: Sequence[Float[np.ndarray, "n n"]],
    *,
    queries: Float[np.ndarray, "n d"],
    keys: Float[np.ndarray, "n d"],
) -> xr.Dataset:
    """Dataset for `draw_lines`: several matrices, and the mean row sum of each.

    Weights are drawn in units of the mean row sum, so all panels have the same total.
    """
    stack = np.stack(matrices)
    return xr.Dataset(
        {
            "plan": (("panel", "query", "key"), stack),
            "unit": ("panel", stack.sum(axis=(1, 2)) / stack.shape[1]),
            "query_state": (("query", "coord"), queries),
            "key_state": (("key", "coord"), keys),
        }
    )


def draw_lines(axes: Axes, panel: xr.Dataset) -> None:
    """Draws one matrix of `scaled_plans`; token areas show its row and column sums."""
    x, y = panel["query_state"].values, panel["key_state"].values
    weights = panel["plan"].values / float(panel["unit"])
    ends = np.stack(np.broadcast_arrays(x[:, None], y[None, :]), axis=2)
    widths = _WIDTH * weights.ravel()
    order = np.argsort(widths)
    segments = ends.reshape(-1, 2, 2)[order]
    axes.add_collection(
        LineCollection(
            list(segments), linewidths=widths[order], color=LINE, alpha=0.5, zorder=1
        )
    )
    tokens = ((x, weights.sum(1), "o", QUERY), (y, weights.sum(0), "s", KEY))
    for states, masses, marker, colour in tokens:
        axes.scatter(
            *states.T,
            s=_SIZE**2 * masses,
            marker=marker,
            color=colour,
            edgecolor="white",
            linewidth=0.6,
            zorder=2,
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)


def draw_line_legend(figure: Figure) -> None:
    """Draws one legend for all panels of lines, below them."""
    token = {"linestyle": "", "markersize": _SIZE, "markeredgecolor": "white"}
    handles: list[Artist] = [
        Line2D([], [], marker="o", color=QUERY, label="query $Qx_i$", **token),
        Line2D([], [], marker="s", color=KEY, label="key $Kx_j$", **token),
    ]
    handles += [
        Line2D([], [], color=LINE, alpha=0.5, linewidth=_WIDTH * w, label=f"{w:g}")
        for w in _SAMPLES
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        title="width of a line: weight; area of a token: sum of its row or column; "
        "both in units of the mean row sum",
        title_fontsize=9.5,
    )
