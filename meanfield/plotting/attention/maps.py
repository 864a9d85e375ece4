"""Attention matrices: one heat map for each snapshot and head."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError

from ._figure.panels import annotate, attention_panel, panel, titled_figure
from ._figure.style import GREY
from ._figure.times import layer_at
from ._runs.data import runs, values
from ._runs.depth import head_numbers
from ._runs.observables import even_frames

# Snapshots (rows, evenly spaced) and heads (columns, the first) in one figure.
_SNAPSHOTS, _HEADS = 4, 6
# The colour scale ends at this quantile of the weights, so one peak does not hide all.
_TOP = 0.995
# More words than this would be too small to read.
_WORDS = 32

_DIMS = ("snapshot", "head", "query", "token")


@attention_panel("attention")
@panel()
def attention(dataset: xr.Dataset) -> Figure:
    """Attention matrices, queries down and tokens across, on one colour scale.

    Up to four snapshots and six heads are shown; of an ensemble, the first run. Where
    weights are negative the scale is symmetric about zero.

    Raises:
        InvalidInputError: if the dataset carries no attention.
    """
    if "attention" not in dataset:
        raise InvalidInputError(
            "This dataset carries no `attention`: save snapshots of it with the run."
        )
    run = next(runs(dataset))
    maps = values(run, "attention", _DIMS)
    times = values(run, "snapshot", ("snapshot",))
    rows, n_heads = even_frames(len(maps), _SNAPSHOTS), min(maps.shape[1], _HEADS)
    figure = titled_figure(
        dataset, (max(1.7 * n_heads + 1.9, 4.6), max(1.75 * rows.size + 1.1, 4.2))
    )
    grid = figure.subplots(rows.size, n_heads, squeeze=False)
    shown = maps[rows, :n_heads]
    norm, cmap, extend = _scale(shown)
    for (i, j), axes in np.ndenumerate(grid):
        axes.imshow(shown[i, j], norm=norm, cmap=cmap)
        _bare(axes)
    _name_rows(grid, dataset, times[rows])
    _name_columns(grid, head_numbers(dataset, n_heads))
    _words(grid, run)
    scale = ScalarMappable(norm, cmap)
    bar = figure.colorbar(scale, ax=grid, shrink=0.8, aspect=30, extend=extend)
    bar.set_label("attention weight")
    bar.outline.set_visible(False)
    annotate(figure, *_left_out(dataset, maps.shape, shown.shape))
    return figure


def _name_rows(grid: np.ndarray, dataset: xr.Dataset, times: np.ndarray) -> None:
    """What moment the matrices of each row are of."""
    for axes, time in zip(grid[:, 0], times, strict=True):
        moment = [f"$t$ = {time:.3g}", layer_at(dataset, float(time)), "query"]
        axes.set_ylabel("\n".join(filter(None, moment)))


def _name_columns(grid: np.ndarray, heads: list[int]) -> None:
    """What head those of each column are of."""
    for head, top, bottom in zip(heads, grid[0], grid[-1], strict=True):
        top.set_title(f"head {head}", loc="center")
        bottom.set_xlabel("token")


def _words(grid: np.ndarray, run: xr.Dataset) -> None:
    """Words beside the first column and below the last row, if they are few."""
    if "word" not in run or run.sizes["token"] > _WORDS:
        return
    words = [str(word).replace("$", r"\$") for word in run["word"].values]
    places = np.arange(len(words))
    for axes in grid[:, 0]:
        axes.set_yticks(places, words, fontsize="xx-small")
    for axes in grid[-1]:
        axes.set_xticks(places, words, fontsize="xx-small", rotation=90)
    for axes in (*grid[:, 0], *grid[-1]):
        axes.tick_params(length=0)


def _scale(maps: np.ndarray) -> tuple[Normalize, str, str]:
    """One colour scale for all maps: its norm, its colours, and which end is cut."""
    finite = maps[np.isfinite(maps)]
    if finite.size == 0:
        raise InvalidInputError("No entry of `attention` is finite: nothing to draw.")
    top = float(np.quantile(np.abs(finite), _TOP)) or float(np.abs(finite).max()) or 1.0
    cut = bool(np.abs(finite).max() > top)
    if finite.min() < 0:
        return Normalize(-top, top), "PuOr", "both" if cut else "neither"
    return Normalize(0.0, top), "Blues", "max" if cut else "neither"


def _bare(axes: Axes) -> None:
    """No ticks: rows and columns are tokens in order."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.5)


def _left_out(
    dataset: xr.Dataset, all_maps: tuple[int, ...], shown: tuple[int, ...]
) -> list[str]:
    """Small print on what the figure does not show."""
    notes = []
    if "run" in dataset.dims and dataset.sizes["run"] > 1:
        notes.append(f"first of {dataset.sizes['run']} runs")
    for i, name in enumerate(("snapshots", "heads")):
        if shown[i] < all_maps[i]:
            notes.append(f"{shown[i]} of {all_maps[i]} {name}")
    notes.append(f"{shown[2]} × {shown[3]} tokens")
    return ["; ".join(notes)]
