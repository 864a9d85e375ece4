"""PNG files with a palette, a third of the bytes, where the eye sees no difference."""

from io import BytesIO

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

# Half the palette is for the most frequent colours, which keeps gradients smooth, and
# half for the rest, which keeps the colours of thin lines and small marks.
_HALF = 128
WHITE = (255, 255, 255)
_SEEN = 8  # of 255, by which a colour of an area may be off
_WIDE = 16  # pixels of one colour in a row that make an area


def paletted(figure: Figure) -> Image.Image:
    """The figure as an image of 255 colours, or of all where that many would show."""
    pixels = BytesIO()
    figure.savefig(pixels, format="png", pil_kwargs={"compress_level": 0})
    image = Image.open(pixels).convert("RGB")
    palette = Image.new("P", (1, 1))
    frequent = _palette(image, Image.Quantize.MEDIANCUT)
    colours = [*WHITE, *frequent, *_palette(image, Image.Quantize.MAXCOVERAGE)]
    palette.putpalette(colours)
    indices = image.quantize(palette=palette, dither=Image.Dither.NONE)
    # Nearly the nearest is good enough for all but the paper.
    white = np.all(np.asarray(image) == WHITE, axis=-1)
    exact = Image.fromarray(np.where(white, 0, np.asarray(indices)).astype(np.uint8))
    exact.putpalette(colours)
    return image if _shows(exact, image) else exact


def _shows(image: Image.Image, exact: Image.Image) -> bool:
    """Whether areas of an image are far from their exact colours, as in a scale."""
    seen, true = (np.asarray(part.convert("RGB"), np.int16) for part in (image, exact))
    is_off = np.abs(seen - true).max(axis=-1) > _SEEN
    rows = np.lib.stride_tricks.sliding_window_view(true, _WIDE, axis=1)
    is_area = np.all(rows == rows[..., :1], axis=(-1, -2))
    return bool(np.any(is_off[:, : 1 - _WIDE] & is_area))


def _palette(image: Image.Image, method: Image.Quantize) -> list[int]:
    """At most `_HALF - 1` colours of an image, three numbers each."""
    flat = image.quantize(_HALF - 1, method=method).getpalette() or []
    return flat[: 3 * (_HALF - 1)]
