"""Distances between stored runs over time."""

from collections.abc import Mapping
from itertools import cycle

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ._figure.bands import marker, spans_decades
from ._figure.look import Look
from ._figure.marks import entry, legend, named_entry
from ._figure.panels import annotate, finish, titled_figure
from ._figure.style import CYCLE, GREY
from .reading.observables import drop_rounding

# Pairs take the colours from the end of the cycle, since runs take them from the start.
_COLOURS = CYCLE[::-1]
_PATTERNS = {
    "wasserstein": ("-", "$W_2$"),
    "sliced": ((0, (4, 2)), "sliced $W_2$"),
    "bures": (":", "of the moments (Bures)"),
}


def draw_distances(distances: xr.Dataset, look: Look | None = None) -> Figure:
    r"""Distances of each pair of runs (top), and Sinkhorn divergences (bottom).

    Args:
        distances: the dataset that `meanfield.runs.distances` returns.
        look: style of the picture.

    Examples:
        >>> import xarray as xr
        >>> from meanfield.plotting import draw_distances
        >>> names = "wasserstein", "sliced", "bures", "sinkhorn_divergence"
        >>> curve = ("pair", "time"), [[0.0, 1.0]]
        >>> axes = {"pair": ["softmax – l2"], "time": [0.0, 1.0]}
        >>> attrs = {"epsilon": 0.1, "methods": ["linear programme"], "notes": []}
        >>> data = xr.Dataset(dict.fromkeys(names, curve), axes, attrs)
        >>> len(draw_distances(data).axes)
        2
    """
    look = look or Look()
    with look.rc_context():
        data = look.attach_to(distances.assign_attrs(title="distances of runs"))
        figure = titled_figure(data, (6.6, 6.4))
        has_divergence = bool(distances["sinkhorn_divergence"].notnull().any())
        heights = [1.5, 1] if has_divergence else [1]
        parts = figure.subplots(
            len(heights), 1, sharex=True, squeeze=False, height_ratios=heights
        )[:, 0]
        top, bottom = parts[0], parts[-1]
        _draw_pairs(top, distances, {name: p for name, (p, _) in _PATTERNS.items()})
        top.set_ylabel("distance")
        bottom.set_xlabel("time $t$")
        if has_divergence:
            _draw_pairs(bottom, distances, {"sinkhorn_divergence": "-"})
            bottom.set_ylabel("Sinkhorn divergence")
        legend(top, _entries(distances), 3)
        methods = ", ".join(dict.fromkeys(distances.attrs["methods"]))
        epsilon = f"ε = {distances.attrs['epsilon']:.3g} in the divergence"
        annotate(figure, f"$W_2$: {methods}; {epsilon}", *distances.attrs["notes"])
        finish(figure, look)
    return figure


def _draw_pairs(
    axes: Axes, distances: xr.Dataset, patterns: Mapping[str, object]
) -> None:
    """Draw variables, each with its line pattern, in the colours of the pairs.

    On a logarithmic scale, rounding errors are left out.
    """
    times = distances["time"].values
    rows = {n: distances[n].transpose("pair", "time").values for n in patterns}
    numbers = drop_rounding(np.stack([*rows.values()]))
    if spans_decades(numbers):
        axes.set_yscale("log")
        rows = dict(zip(rows, numbers, strict=True))
    for name, pattern in patterns.items():
        for row, colour in zip(rows[name], cycle(_COLOURS), strict=False):
            (line,) = axes.plot(times, row, color=colour, marker=marker(times))
            line.set(linestyle=pattern)
    axes.grid(visible=True, axis="y")


def _entries(distances: xr.Dataset) -> list[Line2D]:
    pairs = [str(pair) for pair in distances["pair"].values]
    colours = zip(pairs, cycle(_COLOURS), strict=False)
    patterns = _PATTERNS.values()
    return [
        *(named_entry(pair, colour) for pair, colour in colours),
        *(entry(label, GREY, linestyle=pattern) for pattern, label in patterns),
    ]
