"""Spelling, colour and marker of each attention, the same in all figures."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class AttentionStyle(NamedTuple):
    """Style of an attention in figures.

    Attributes:
        label: spelling in legends.
        colour: colour, as hexadecimal digits.
        marker: marker of Matplotlib.
        fillstyle: filling of the marker, which tells variants of an attention apart.
    """

    label: str
    colour: str
    marker: str
    fillstyle: str = "full"

    @property
    def points(self) -> dict[str, Any]:
        """Keywords of `Axes.plot` for points of this attention."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "fillstyle": self.fillstyle,
            "linestyle": "",
        }


STYLES = {
    style.label: style
    for style in (
        AttentionStyle("softmax", "#0072B2", "o"),
        AttentionStyle("Sinkhorn", "#D55E00", "s"),
        AttentionStyle("sliced", "#009E73", "^"),
        AttentionStyle("sliced, published", "#117733", "<"),
        AttentionStyle("L2", "#CC79A7", "D"),
        AttentionStyle("differential", "#E69F00", "v"),
        AttentionStyle("exp", "#56B4E9", "P"),
        AttentionStyle("sigmoid", "#44AA99", "p"),
        AttentionStyle("linear", "#999933", "X"),
        AttentionStyle("linear expansion", "#661100", "d"),
        AttentionStyle("squared", "#332288", "h"),
        AttentionStyle("ReLU", "#AA4499", "*"),
        AttentionStyle("sparse", "#6699CC", ">"),
        AttentionStyle("local", "#AA7744", "H"),
        AttentionStyle("uniform", "#8A8A8A", "8"),
    )
}
# Other names of these attentions: names in the registry, and variants in figures.
NAMES = {
    "sinkhorn": "Sinkhorn",
    "esp": "sliced",
    "esp-soft": "sliced",
    "esp-soft-published": "sliced, published",
    "l2": "L2",
    "linear-expansion": "linear expansion",
    "relu": "ReLU",
    "unbalanced": "sparse",
    "mixture": "sparse",
    "strided": "local",
    "initial": "sliced",
    "longer": "sliced",
    "sharp": "sliced",
    "hard": "sliced",
}
FILL_STYLES = "full", "none", "left", "right"  # of the variants of an attention


def attention_style(name: str) -> AttentionStyle:
    """The style of an attention, by its label, its registered name, or a variant.

    The name of a variant begins with that of its attention: `Sinkhorn 21`.

    Raises:
        KeyError: if the attention has no style.
    """
    for part in (name, name.replace(",", "").split()[0]):
        if (label := NAMES.get(part, part)) in STYLES:
            return STYLES[label]
    raise KeyError(name)


def attention_styles(names: Iterable[str]) -> dict[str, AttentionStyle]:
    """The style of each name; variants of one attention differ in their filling.

    The labels of variants are their names.
    """
    styles: dict[str, AttentionStyle] = {}
    for name in names:
        style = attention_style(name)
        n_before = sum(other.colour == style.colour for other in styles.values())
        label = name if name not in NAMES or n_before else style.label
        fillstyle = FILL_STYLES[n_before]
        styles[name] = style._replace(label=label, fillstyle=fillstyle)
    return styles
