"""The styles of pictures: paper, talk, dark, and dark-talk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from meanfield._registry import Registry

PAPER = "#ffffff"
DARK = "#14171a"
_TEXT, _FRAME, _LINES = "#e8e8e8", "#b4b4b4", "#33393f"

# These settings scale with the font size of labels; `repaint` scales lines and marks.
_SIZES = (
    "font.size",
    "figure.titlesize",
    "figure.labelsize",
    "axes.labelsize",
    "axes.titlesize",
    "xtick.labelsize",
    "ytick.labelsize",
    "legend.fontsize",
    "xtick.major.size",
    "xtick.major.width",
    "xtick.minor.size",
    "ytick.major.size",
    "ytick.major.width",
    "ytick.minor.size",
)


@dataclass(frozen=True)
class Style:
    """A style: font sizes in points, matplotlib settings, and replacement colours.

    Attributes:
        fontsize: font size of labels; other text, lines and marks scale with it.
        narrow: font size of labels if the look sets a width.
        narrow_to: width in inches up to which labels have the font size `narrow`; in
            wider pictures, the font size grows in proportion to the width.
        settings: matplotlib settings that override `meanfield.mplstyle`.
        inks: maps colours of the paper style to those of this style, as `#rrggbb`.
    """

    fontsize: float
    narrow: float = 8.0
    narrow_to: float = 7.0  # about the width of two journal columns, in inches
    settings: Mapping[str, str] = field(default_factory=dict)
    inks: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def rc_context(self, scale: float) -> Iterator[None]:
        """Context manager that sets matplotlib's defaults and this style.

        Args:
            scale: size of text and ticks relative to the paper style.
        """
        import matplotlib as mpl  # imported here to keep `--help` fast

        settings: dict[Any, Any] = {**self.settings}
        file = Path(__file__).with_name("meanfield.mplstyle")
        with mpl.rc_context(settings, fname=file):
            mpl.rcParams.update({k: scale * mpl.rcParams[k] for k in _SIZES})
            yield


styles: Registry[Style] = Registry("style")
styles.register("paper")(Style(11.0))
# On slides, small print is darker, since it is read from afar.
_TALK = Style(15.0, narrow=15.0, narrow_to=10.0, inks={"#696969": "#404040"})
_DARK_STYLE = Style(
    11.0,
    settings={
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), DARK),
        **dict.fromkeys(("text.color", "axes.labelcolor"), _TEXT),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), _FRAME),
        "grid.color": _LINES,
    },
    inks={
        PAPER: DARK,
        "#f6f8fa": "#1d2226",
        "#222222": _TEXT,
        "#777777": _FRAME,
        "#696969": "#c8c8c8",
        "#8a8a8a": "#9d9d9d",
        "#d9d9d9": "#454b51",
        "#0072b2": "#4aa3e0",
        "#009e73": "#2fc49b",
        # This is yellow, since a light blue would resemble the blue above.
        "#56b4e9": "#f0e442",
        "#d55e00": "#f2803a",
        "#5e3c99": "#a890dc",
        "#8c510a": "#c98d45",
    },
)
styles.register("talk")(_TALK)
styles.register("dark")(_DARK_STYLE)
styles.register("dark-talk")(
    replace(_TALK, settings=_DARK_STYLE.settings, inks=_DARK_STYLE.inks)
)
