"""The panel `attention`: a heat map of the attention matrix by snapshot and head."""

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
    add_subject,
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

from .selection import head_indices, query_index, query_name

# By default, a figure shows at most `_SNAPSHOTS` evenly spaced snapshots as rows and at
# most `_HEADS` heads as columns.
_SNAPSHOTS, _HEADS = 4, 6
# If some weights are negative, the colour scale ends at the larger of two numbers: the
# quantile `_TOP` of the absolute weights, and the median over rows of the largest
# absolute weight. One peak then does not hide the rest.
_TOP = 0.995
_CUT = 0.95  # a colour scale is not cut if less than 5 % would be cut off
# Maps of at most `_MAX_TOKENS` tokens are enlarged to show all words; larger maps show
# only some of the words.
_MAX_TOKENS = 32
# Widths in inches: of a map, of a word, and of all columns together.
_SIDE, _WORD, _PAGE = 1.7, 0.1, 11.0
_SMALL, _LINE = "xx-small", 1.1  # font size of words, and line height relative to it
_MAP = 0.8  # share of the figure's width that a map takes without its colour bar
_BAR = {"shrink": 0.8, "aspect": 30, "pad": 0.05}
_MAX_HEADS = 12  # largest number of heads, each with a map
_QUERY_HEADS = 32  # largest number of heads (rows) in the map of a single query

_DIMS = ("snapshot", "head", "query", "token")


class _Maps(NamedTuple):
    """Weights to draw, (snapshot, head, query, token), with labels and a note."""

    weights: np.ndarray
    moments: list[str]
    heads: list[int]
    words: list[str]
    note: str

    @property
    def tokens(self) -> list[str]:
        """The words of the tokens, or their numbers if there are no words."""
        return self.words or [str(i) for i in range(self.weights.shape[-1])]


@attention_panel("attention")
@panel(*options_for("attention"))
def attention(dataset: xr.Dataset) -> Figure:
    """Attention matrices with queries as rows and tokens as columns, on one scale.

    Up to four snapshots are shown, with the first six heads or the `heads` of the look.
    Of an ensemble, the first run is shown. If the look has a `query`, each snapshot has
    one map, whose rows are the weights of this token in each head. If some weights are
    negative, the colour scale is symmetric about zero.

    Raises:
        InvalidInputError: if the dataset has no `attention`, or a head or token that
            the look names does not exist.
    """
    if "attention" not in dataset:
        raise InvalidInputError(
            "The dataset must contain `attention`. Add it to a stored run with "
            "`runs.add_attention`, or call `.plot.attention()` on a `Run`."
        )
    run, look = next(runs(dataset)), look_of(dataset)
    if look.query is None:
        maps = _select_maps(dataset, run, look, _columns(run, look))
        return _matrices(add_subject(dataset, "attention weights"), maps)
    index = query_index(run, look.query)
    maps, name = _select_maps(dataset, run, look, _QUERY_HEADS), query_name(run, index)
    return _rows(add_subject(dataset, f"attention weights of {name}"), maps, index)


def _columns(run: xr.Dataset, look: Look) -> int:
    """The number of maps in a row."""
    return look.columns(min(_HEADS, int(_PAGE / _side(run.sizes["token"], run))))


def _side(n: int, run: xr.Dataset) -> float:
    """The side of a map in inches, large enough for its words."""
    return max(_SIDE, _WORD * n) if "word" in run and n <= _MAX_TOKENS else _SIDE


def _select_maps(
    dataset: xr.Dataset, run: xr.Dataset, look: Look, max_heads: int
) -> _Maps:
    """The maps of evenly spaced snapshots, for the look's heads or the first ones."""
    maps = values(run, "attention", _DIMS)
    frames = even_frames(len(maps), _SNAPSHOTS)
    times = values(run, "snapshot", ("snapshot",))[frames]
    numbers = head_numbers(dataset, maps.shape[1])
    largest = _MAX_HEADS if look.query is None else _QUERY_HEADS
    heads = head_indices(numbers, look.heads or tuple(numbers[:max_heads]), largest)
    weights = maps[frames][:, heads]
    moments = [
        "\n".join(filter(None, [f"$t$ = {time:.3g}", layer_at(dataset, float(time))]))
        for time in times
    ]
    words = [verbatim(word) for word in run["word"].values] if "word" in run else []
    note = _omission_note(dataset, maps.shape, weights.shape)
    return _Maps(weights, moments, [numbers[i] for i in heads], words, note)


def _matrices(dataset: xr.Dataset, maps: _Maps) -> Figure:
    """Draw a map for each snapshot and head; heads that do not fit start a new row."""
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
        _remove_ticks(axes)
        axes.tick_params(length=0 if step == 1 else 2)
        if i == 0 or lines > 1:
            axes.set_title(f"head {maps.heads[j]}", loc="center")
        if j % columns == 0:
            axes.set_yticks(*_tick_labels(maps.tokens, step), fontsize=_SMALL)
            axes.set_ylabel(f"{maps.moments[i]}\nquery")
        if i == n_snapshots - 1 and j + columns >= n_heads:
            _name_keys(axes, maps, step)
    colour_bar(list(grid.flat), scale, "attention weight", **_BAR, extend=extend)
    sizes = "{2} × {3} tokens".format(*maps.weights.shape)
    first = "; ".join(filter(None, [maps.note, sizes, _step_note(step)]))
    annotate(figure, first, _clip_note(maps.weights, scale))
    return figure


def _rows(dataset: xr.Dataset, maps: _Maps, query: int) -> Figure:
    """Draw the weights of one query: a map for each snapshot, with heads as rows."""
    weights = maps.weights[:, :, query]
    n_snapshots, n_heads, n = weights.shape
    high = max(0.2 * n_heads, 0.7)
    figure = titled_figure(dataset, (6.6, high * n_snapshots + 2.0))
    grid = figure.subplots(n_snapshots, 1, sharex=True, squeeze=False)
    scale, extend = _scale(weights, look_of(dataset))
    for axes, rows, moment in zip(grid[:, 0], weights, maps.moments, strict=True):
        axes.imshow(rows, norm=scale.norm, cmap=scale.cmap, aspect="auto")
        _remove_ticks(axes)
        axes.set_ylabel(f"{moment}\nhead")
        axes.set_yticks(np.arange(n_heads), maps.heads, fontsize=_SMALL)
        axes.tick_params(length=0)
    last = grid[-1, 0]
    step = _step(n, _MAP * figure.get_figwidth())
    _name_keys(last, maps, step)
    colour_bar(list(grid.flat), scale, "attention weight", **_BAR, extend=extend)
    notes = filter(None, [maps.note, _step_note(step)])
    annotate(figure, "; ".join(notes), _clip_note(weights, scale))
    return figure


def _step(n: int, side: float) -> int:
    """The step between labelled tokens along a side of `side` inches."""
    size = FontProperties(size=_SMALL).get_size_in_points()
    return max(1, -(-n // max(1, int(72 * side / (_LINE * size)))))


def _tick_labels(tokens: list[str], step: int) -> tuple[np.ndarray, list[str]]:
    """The positions of ticks, and the tokens that label them."""
    return np.arange(0, len(tokens), step), tokens[::step]


def _name_keys(axes: Axes, maps: _Maps, step: int) -> None:
    axes.set_xticks(*_tick_labels(maps.tokens, step), fontsize=_SMALL, rotation=90)
    axes.set_xlabel("token")


def _step_note(step: int) -> str:
    return "" if step == 1 else f"one of {step} tokens is named"


def _clip_note(weights: np.ndarray, scale: ScalarMappable) -> str:
    """A note if some weights are beyond the colour scale."""
    largest = float(np.abs(weights[np.isfinite(weights)]).max())
    top = scale.get_clim()[1]
    if top is None or largest <= top:
        return ""
    return f"colours end at {top:.2g}, the largest weight is {largest:.2g}"


def _scale(maps: np.ndarray, look: Look) -> tuple[ScalarMappable, str]:
    """The colour scale of all maps, and which of its ends are clipped."""
    finite = maps[np.isfinite(maps)]
    if finite.size == 0:
        raise InvalidInputError("`attention` must have finite entries; got none.")
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


def _remove_ticks(axes: Axes) -> None:
    """Replace ticks by a frame, since rows and columns are tokens in order."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.5)


def _omission_note(
    dataset: xr.Dataset, full_shape: tuple[int, ...], shape: tuple[int, ...]
) -> str:
    """A note on runs, snapshots and heads that the figure leaves out."""
    notes = []
    if "run" in dataset.dims and dataset.sizes["run"] > 1:
        notes.append(f"first of {dataset.sizes['run']} runs")
    for i, name in enumerate(("snapshots", "heads")):
        if shape[i] < full_shape[i]:
            notes.append(f"{shape[i]} of {full_shape[i]} {name}")
    return "; ".join(notes)
