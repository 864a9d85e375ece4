"""The look of figures: one style file, applied only while drawing, and the colours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap

INK, GREY, PALE = "#222222", "#8a8a8a", "#d9d9d9"

# Okabe and Ito (2008): told apart under every common colour blindness.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")

LIMIT_COLOUR = "#B08D00"
CLOSURE_COLOUR = "#D55E00"


@contextmanager
def style() -> Iterator[None]:
    """The style of `meanfield`, over matplotlib's defaults, until the block ends.

    Also a decorator. The user's own settings are put back afterwards.
    """
    with mpl.rc_context(fname=Path(__file__).with_name("meanfield.mplstyle")):
        yield


def legible(name: str) -> ListedColormap:
    """The named colour map without its lightest end, which is lost on white."""
    return ListedColormap(mpl.colormaps[name](np.linspace(0.0, 0.9, 256)), name)
