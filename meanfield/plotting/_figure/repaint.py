"""Change of colours, line widths and marker sizes in a finished figure."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, PathCollection
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from mpl_toolkits.mplot3d import Axes3D

Inks = Mapping[str, str]
_NUMBER_HEIGHT = 10.0  # height of tick labels of 3D axes, in points
_COLOURS: Mapping[type[Artist], tuple[str, ...]] = {
    Line2D: ("color", "markerfacecolor", "markerfacecoloralt", "markeredgecolor"),
    Text: ("color",),
    Patch: ("facecolor", "edgecolor"),
}
_LENGTHS: Mapping[type[Artist], tuple[str, ...]] = {
    Line2D: ("linewidth", "markersize", "markeredgewidth"),
    Patch: ("linewidth",),
}


def repaint(figure: Figure, inks: Inks, scale: float) -> None:
    """Replace colours and scale line widths and marker sizes of a figure, in place.

    Colour maps do not change, nor do ticks, which follow matplotlib's settings.

    Args:
        figure: the figure to change.
        inks: maps old to new colours, both as `#rrggbb`.
        scale: factor for line widths and marker sizes; areas grow with its square.
    """
    for artist in _artists(figure):
        if inks:
            _recolour(artist, inks)
        if scale != 1:
            _resize(artist, scale)


def _artists(figure: Figure) -> Iterator[Artist]:
    """All artists of the figure except `Axis` objects, with their ticks and labels."""
    ticks = {
        id(part)
        for axes in figure.findobj(Axes)
        for axis in axes.findobj(Axis, include_self=False)
        for part in axis.findobj()
    }
    return (artist for artist in figure.findobj() if id(artist) not in ticks)


def _recolour(artist: Artist, inks: Inks) -> None:
    for name in _row(_COLOURS, artist):
        stand_in = _ink(getattr(artist, f"get_{name}")(), inks)
        if stand_in is not None:
            artist.set(**{name: stand_in})
    if isinstance(artist, Collection) and artist.get_array() is None:
        # In 3D, subclasses override `get_facecolor`, and its result depends on the
        # view.
        faces = Collection.get_facecolor(artist)
        edges = Collection.get_edgecolor(artist)
        if len(faces):  # without faces, matplotlib fails if each line has an opacity
            artist.set_facecolor(_inks(faces, inks))
        if len(edges):
            artist.set_edgecolor(_inks(edges, inks))


def _resize(artist: Artist, scale: float) -> None:
    if isinstance(artist, Collection):
        widths = np.atleast_1d(np.asarray(artist.get_linewidth(), dtype=float))
        artist.set_linewidth([scale * float(width) for width in widths])
    if isinstance(artist, PathCollection):
        artist.set_sizes(scale**2 * np.asarray(artist.get_sizes()))
    for name in _row(_LENGTHS, artist):
        artist.set(**{name: scale * getattr(artist, f"get_{name}")()})
    if isinstance(artist, Axes3D):
        for axis in (artist.xaxis, artist.yaxis, artist.zaxis):
            # Tick labels grow with the scale, so axis labels move outwards.
            axis.labelpad = scale * axis.labelpad + _NUMBER_HEIGHT * (scale - 1)


def _row(table: Mapping[type[Artist], tuple[str, ...]], artist: Artist) -> list[str]:
    """The properties that `table` lists for this type of artist."""
    return [n for kind, row in table.items() if isinstance(artist, kind) for n in row]


def _ink(colour: Any, inks: Inks) -> Any:
    """The replacement of a colour, with the same opacity; None if there is none."""
    if isinstance(colour, str) and colour in ("none", "auto"):
        return None
    rgba = to_rgba_array(colour)[0]
    stand_in = inks.get(to_hex(rgba))
    if stand_in is None or rgba[3] == 0:
        return None
    return (*to_rgba_array(stand_in)[0, :3], rgba[3])


def _inks(colours: Any, inks: Inks) -> Any:
    """The colours (n, 4), replaced where `inks` has a replacement."""
    shades = to_rgba_array(colours).copy()
    for old, new in inks.items():
        rows = np.abs(shades[:, :3] - to_rgba_array(old)[0, :3]).max(axis=1) < 1 / 510
        shades[rows, :3] = to_rgba_array(new)[0, :3]
    return shades
