"""The colours, colour maps and default style of figures."""

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap, ListedColormap, to_rgb

from .look import Look

INK, GREY, PALE = "#222222", "#8a8a8a", "#d9d9d9"
PRINT = "#696969"  # colour of small print in the paper style; other styles replace it

# Okabe and Ito (2008): colours that people with colour blindness can distinguish.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")

LIMIT_COLOUR = "#B08D00"
CLOSURE_COLOUR = "#D55E00"
# The first 40 of the 256 shades of a colour map blend from the background to the palest
# colour of the map.
_N_PALE = 40


@contextmanager
def style() -> Iterator[None]:
    """Context manager or decorator that sets matplotlib's defaults and the paper style.

    The user's settings are restored afterwards.

    Examples:
        >>> import matplotlib as mpl
        >>> from meanfield.plotting import style
        >>> before = mpl.rcParams["axes.spines.top"]
        >>> with style():
        ...     inside = mpl.rcParams["axes.spines.top"]
        >>> inside, mpl.rcParams["axes.spines.top"] == before
        (False, True)
    """
    with Look().rc_context():
        yield


def paper() -> tuple[float, float, float]:
    """The background colour of figures."""
    return to_rgb(mpl.rcParams["figure.facecolor"])


def is_dark() -> bool:
    """Whether the background is dark."""
    return sum(paper()) < 1.5


def number_map(look: Look) -> Colormap:
    """The look's colour map; by default viridis without shades near the background."""
    if look.cmap is not None:
        return mpl.colormaps[look.cmap]
    ends = (0.4, 1.0) if is_dark() else (0.0, 0.9)
    return ListedColormap(mpl.colormaps["viridis"](np.linspace(*ends, 256)), "viridis")


def density_map(look: Look) -> Colormap:
    """The colour map of densities; by default, zero has the background colour."""
    blank = (*paper(), 1.0)
    if look.cmap is not None:
        return mpl.colormaps[look.cmap].with_extremes(bad=blank)
    shades = mpl.colormaps["magma" if is_dark() else "magma_r"](np.linspace(0, 1, 256))
    blend = np.linspace(0, 1, _N_PALE)[:, None]
    shades[:_N_PALE] = blend * shades[:_N_PALE] + (1 - blend) * blank
    return ListedColormap(shades, "density").with_extremes(under=blank, bad=blank)


def weight_map(look: Look) -> Colormap:
    """The colour map of nonnegative attention weights."""
    return mpl.colormaps[look.cmap or ("Blues_r" if is_dark() else "Blues")]


def signed_map(look: Look) -> Colormap:
    """The colour map of attention weights of both signs, centred at zero."""
    return mpl.colormaps[look.cmap or "PuOr"]
