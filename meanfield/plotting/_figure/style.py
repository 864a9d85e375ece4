"""The colours of figures on paper, the maps of their scales, and their style."""

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap, ListedColormap, to_rgb

from .look import Look

INK, GREY, PALE = "#222222", "#8a8a8a", "#d9d9d9"
PRINT = "#696969"  # of the small print, read at arm's length; styles have their own

# Okabe and Ito (2008): told apart under every common colour blindness.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")

LIMIT_COLOUR = "#B08D00"
CLOSURE_COLOUR = "#D55E00"
# So many of 256 shades lead from the white of the paper to the palest colour.
_FADED = 40


@contextmanager
def style() -> Iterator[None]:
    """The style of `meanfield` on paper, over matplotlib's defaults.

    Also a decorator. The user's own settings are put back afterwards.

    Examples:
        >>> import matplotlib as mpl
        >>> from meanfield.plotting import style
        >>> before = mpl.rcParams["axes.spines.top"]
        >>> with style():
        ...     inside = mpl.rcParams["axes.spines.top"]
        >>> inside, mpl.rcParams["axes.spines.top"] == before
        (False, True)
    """
    with Look().applied():
        yield


def paper() -> tuple[float, float, float]:
    """The colour on which is drawn."""
    return to_rgb(mpl.rcParams["figure.facecolor"])


def on_dark() -> bool:
    """Whether light is drawn on dark."""
    return sum(paper()) < 1.5


def number_map(look: Look) -> Colormap:
    """The colour map of numbers: viridis without its end that is lost on the paper."""
    if look.cmap is not None:
        return mpl.colormaps[look.cmap]
    ends = (0.4, 1.0) if on_dark() else (0.0, 0.9)
    return ListedColormap(mpl.colormaps["viridis"](np.linspace(*ends, 256)), "viridis")


def density_map(look: Look) -> Colormap:
    """From the paper, where there is nothing, to its contrary; perceptually uniform."""
    blank = (*paper(), 1.0)
    if look.cmap is not None:
        return mpl.colormaps[look.cmap].with_extremes(bad=blank)
    shades = mpl.colormaps["magma" if on_dark() else "magma_r"](np.linspace(0, 1, 256))
    faded = np.linspace(0, 1, _FADED)[:, None]
    shades[:_FADED] = faded * shades[:_FADED] + (1 - faded) * blank
    return ListedColormap(shades, "density").with_extremes(under=blank, bad=blank)


def weight_map(look: Look) -> Colormap:
    """The colour map of attention weights, from zero on."""
    return mpl.colormaps[look.cmap or ("Blues_r" if on_dark() else "Blues")]


def signed_map(look: Look) -> Colormap:
    """The colour map of attention weights of both signs, with zero in its middle."""
    return mpl.colormaps[look.cmap or "PuOr"]
