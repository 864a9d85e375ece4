"""Attention matrices: one heat map for each snapshot and head."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.bands import layer_at
from meanfield.plotting._figure.look import Look, look_of, options_for
from meanfield.plotting._figure.marks import colour_bar
from meanfield.plotting._figure.panels import (
    about,
    annotate,
    attention_panel,
    panel,
    titled_figure,
)
from meanfield.plotting._figure.style import GREY, signed_map, weight_map
from meanfield.plotting._figure.text import verbatim
from meanfield.plotting.reading.data import runs, values
from meanfield.plotting.reading.depth import head_numbers
from meanfield.plotting.reading.observables import even_frames

from .chosen import chosen_heads, query_index, query_name

# Snapshots (rows, evenly spaced) and heads (columns, the first) in one figure.
_SNAPSHOTS, _HEADS = 4, 6
# Where weights are negative the scale ends at this quantile of their sizes, so one peak
# does not hide all, but not below what half of the rows have as their largest size.
_TOP = 0.995
_CUT = 0.95  # of the largest: a scale that ends above it ends at the largest
# Up to so many words a map grows with them; of more, as many are written as have room.
_WORDS = 32
_SIDE, _WORD, _PAGE = 1.7, 0.1, 11.0  # inches: a map, a word beside it, all columns
_SMALL, _LINE = "xx-small", 1.1  # the size of words, and of a line in it
_MAP = 0.8  # of the width of a figure, beside its scale
_BAR = {"shrink": 0.8, "aspect": 30, "pad": 0.05}
_ALL = 32  # heads that are rows of one map, for one query

_DIMS = ("snapshot", "head", "query", "token")


class _Maps(NamedTuple):
    """What is drawn: (snapshot, head, query, token), with names; and what is not."""

    weights: np.ndarray
    moments: list[str]
    heads: list[int]
    words: list[str]
    note: str

    @property
    def tokens(self) -> list[str]:
        """The words, or numbers in their place."""
        return self.words or [str(i) for i in range(self.weights.shape[-1])]


@attention_panel("attention")
@panel(*options_for("attention"))
def attention(dataset: xr.Dataset) -> Figure:
    """Attention matrices, queries down and tokens across, on one colour scale.

    Up to four snapshots are shown, and the first six heads, or those that the look
    chooses as `heads`; of an ensemble, the first run. If it chooses a `query`, one map
    for each snapshot has the weights of this token, heads down. Where weights are
    negative the scale is symmetric about zero.

    Raises:
        InvalidInputError: if the dataset carries no attention, no such head or token.
    """
    if "attention" not in dataset:
        raise InvalidInputError(
            "This dataset carries no `attention`; a stored run gains it: in Python by "
            "`runs.with_attention`, or `.plot.attention()` of what `simulate` gives."
        )
    run, look = next(runs(dataset)), look_of(dataset)
    if look.query is None:
        shown = _shown(dataset, run, look, _columns(run, look))
        return _matrices(about(dataset, "attention weights"), shown)
    index = query_index(run, look.query)
    shown, name = _shown(dataset, run, look, _ALL), query_name(run, index)
    return _rows(about(dataset, f"attention weights of {name}"), shown, index)


def _columns(run: xr.Dataset, look: Look) -> int:
    """How many maps stand side by side."""
    return look.columns(min(_HEADS, int(_PAGE / _side(run.sizes["token"], run))))


def _side(n: int, run: xr.Dataset) -> float:
    """Of a map in inches, so that its words can be read."""
    return max(_SIDE, _WORD * n) if "word" in run and n <= _WORDS else _SIDE


def _shown(dataset: xr.Dataset, run: xr.Dataset, look: Look, most: int) -> _Maps:
    """Some snapshots, and the heads that are chosen, or the first."""
    maps = values(run, "attention", _DIMS)
    frames = even_frames(len(maps), _SNAPSHOTS)
    times = values(run, "snapshot", ("snapshot",))[frames]
    numbers = head_numbers(dataset, maps.shape[1])
    heads = chosen_heads(numbers, look.heads or tuple(numbers[:most]))
    shown = maps[frames][:, heads]
    moments = [
        "\n".join(filter(None, [f"$t$ = {time:.3g}", layer_at(dataset, float(time))]))
        for time in times
    ]
    words = [verbatim(word) for word in run["word"].values] if "word" in run else []
    note = _left_out(dataset, maps.shape, shown.shape)
    return _Maps(shown, moments, [numbers[i] for i in heads], words, note)


def _matrices(dataset: xr.Dataset, maps: _Maps) -> Figure:
    """A map for each snapshot and head; heads beyond the page begin a new row."""
    run, look = next(runs(dataset)), look_of(dataset)
    n_snapshots, n_heads, _, n = maps.weights.shape
    columns = min(n_heads, _columns(run, look))
    lines, side = -(-n_heads // columns), _side(n, run)
    size = (max(side * columns + 1.9, 4.6), max(1.03 * side * lines * n_snapshots, 2.4))
    figure = titled_figure(dataset, (size[0], size[1] + 1.3 + 0.2 * (lines > 1)))
    grid = figure.subplots(n_snapshots * lines, columns, squeeze=False)
    scale, extend = _scale(maps.weights, look)
    places = grid.reshape(n_snapshots, lines * columns)
    for axes in places[:, n_heads:].flat:
        axes.set_axis_off()
    step = _step(n, figure.get_figwidth() * side / size[0])
    for (i, j), axes in np.ndenumerate(places[:, :n_heads]):
        axes.imshow(maps.weights[i, j], norm=scale.norm, cmap=scale.cmap)
        _bare(axes)
        axes.tick_params(length=0 if step == 1 else 2)
        if i == 0 or lines > 1:
            axes.set_title(f"head {maps.heads[j]}", loc="center")
        if j % columns == 0:
            axes.set_yticks(*_named(maps.tokens, step), fontsize=_SMALL)
            axes.set_ylabel(f"{maps.moments[i]}\nquery")
        if i == n_snapshots - 1 and j + columns >= n_heads:
            _name_keys(axes, maps, step)
    colour_bar(list(grid.flat), scale, "attention weight", **_BAR, extend=extend)
    sizes = "{2} × {3} tokens".format(*maps.weights.shape)
    first = "; ".join(filter(None, [maps.note, sizes, _every(step)]))
    annotate(figure, first, _beyond(maps.weights, scale))
    return figure


def _rows(dataset: xr.Dataset, maps: _Maps, query: int) -> Figure:
    """The weights of one query: a map for each snapshot, its heads down."""
    weights = maps.weights[:, :, query]
    n_snapshots, n_heads, n = weights.shape
    high = max(0.2 * n_heads, 0.7)
    figure = titled_figure(dataset, (6.6, high * n_snapshots + 2.0))
    grid = figure.subplots(n_snapshots, 1, sharex=True, squeeze=False)
    scale, extend = _scale(weights, look_of(dataset))
    for axes, rows, moment in zip(grid[:, 0], weights, maps.moments, strict=True):
        axes.imshow(rows, norm=scale.norm, cmap=scale.cmap, aspect="auto")
        _bare(axes)
        axes.set_ylabel(f"{moment}\nhead")
        axes.set_yticks(np.arange(n_heads), maps.heads, fontsize=_SMALL)
        axes.tick_params(length=0)
    last = grid[-1, 0]
    step = _step(n, _MAP * figure.get_figwidth())
    _name_keys(last, maps, step)
    colour_bar(list(grid.flat), scale, "attention weight", **_BAR, extend=extend)
    notes = filter(None, [maps.note, _every(step)])
    annotate(figure, "; ".join(notes), _beyond(weights, scale))
    return figure


def _step(n: int, side: float) -> int:
    """Of how many tokens one is named along a side of so many inches."""
    size = FontProperties(size=_SMALL).get_size_in_points()
    return max(1, -(-n // max(1, int(72 * side / (_LINE * size)))))


def _named(tokens: list[str], step: int) -> tuple[np.ndarray, list[str]]:
    """Places of ticks, and the tokens that are named there."""
    return np.arange(0, len(tokens), step), tokens[::step]


def _name_keys(axes: Axes, maps: _Maps, step: int) -> None:
    axes.set_xticks(*_named(maps.tokens, step), fontsize=_SMALL, rotation=90)
    axes.set_xlabel("token")


def _every(step: int) -> str:
    return "" if step == 1 else f"one of {step} tokens is named"


def _beyond(weights: np.ndarray, scale: ScalarMappable) -> str:
    """That some weights are beyond the colours."""
    largest, top = (
        float(np.abs(weights[np.isfinite(weights)]).max()),
        scale.get_clim()[1],
    )
    if top is None or largest <= top:
        return ""
    return f"colours end at {top:.2g}, the largest weight is {largest:.2g}"


def _scale(maps: np.ndarray, look: Look) -> tuple[ScalarMappable, str]:
    """One colour scale for all maps, and which end of it is cut."""
    finite = maps[np.isfinite(maps)]
    if finite.size == 0:
        raise InvalidInputError("No entry of `attention` is finite: nothing to draw.")
    largest = float(np.abs(finite).max()) or 1.0
    if finite.min() >= 0:
        shades = weight_map(look)
        return ScalarMappable(Normalize(0.0, largest), shades), "neither"
    shades = signed_map(look)
    sizes = np.where(np.isfinite(maps), np.abs(maps), 0.0)
    usual = float(np.median(sizes.max(axis=-1)))
    top = max(float(np.quantile(np.abs(finite), _TOP)), usual)
    if not 0 < top < _CUT * largest:
        return ScalarMappable(Normalize(-largest, largest), shades), "neither"
    return ScalarMappable(Normalize(-top, top), shades), "both"


def _bare(axes: Axes) -> None:
    """No ticks: rows and columns are tokens in order."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.5)


def _left_out(
    dataset: xr.Dataset, all_maps: tuple[int, ...], shown: tuple[int, ...]
) -> str:
    """Small print on what the figure does not show."""
    notes = []
    if "run" in dataset.dims and dataset.sizes["run"] > 1:
        notes.append(f"first of {dataset.sizes['run']} runs")
    for i, name in enumerate(("snapshots", "heads")):
        if shown[i] < all_maps[i]:
            notes.append(f"{shown[i]} of {all_maps[i]} {name}")
    return "; ".join(notes)
