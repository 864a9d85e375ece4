"""PNG files with a palette, a third of the bytes, where the eye sees no difference."""

from io import BytesIO

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

# A third of the palette is for areas, which keeps scales even, a third for the most
# frequent colours, which keeps gradients smooth, and a third for the rest, which keeps
# the colours of thin lines and small marks.
_THIRD = 85
WHITE = (255, 255, 255)
_SEEN = 8  # of 255, by which a colour of an area may be off
_WIDE = 16  # pixels of one colour in a row that make an area


def paletted(figure: Figure) -> Image.Image:
    """The figure as an image of 255 colours, or of all where that many would show."""
    written = BytesIO()
    figure.savefig(written, format="png", pil_kwargs={"compress_level": 0})
    image = Image.open(written).convert("RGB")
    palette = Image.new("P", (1, 1))
    pixels = np.asarray(image)
    areas = _colours(_numbers(pixels)[:, : 1 - _WIDE][_areas(pixels)])
    colours = [
        *WHITE,
        *(
            _palette(Image.fromarray(areas), Image.Quantize.MEDIANCUT)
            if areas.size
            else ()
        ),
        *_palette(image, Image.Quantize.MEDIANCUT),
        *_palette(image, Image.Quantize.MAXCOVERAGE),
    ][: 3 * 256]
    palette.putpalette(colours)
    indices = image.quantize(palette=palette, dither=Image.Dither.NONE)
    # Nearly the nearest is good enough for all but the paper.
    white = np.all(pixels == WHITE, axis=-1)
    reduced = Image.fromarray(np.where(white, 0, np.asarray(indices)).astype(np.uint8))
    reduced.putpalette(colours)
    return image if _shows(reduced, image) else reduced


def _shows(reduced: Image.Image, image: Image.Image) -> bool:
    """Whether a palette puts areas of an image far off their colours, as in a scale."""
    seen, true = (np.asarray(i.convert("RGB"), np.int16) for i in (reduced, image))
    is_off = np.any(np.abs(seen - true) > _SEEN, axis=-1)
    return bool(np.any(is_off[:, : 1 - _WIDE] & _areas(true)))


def _areas(pixels: np.ndarray) -> np.ndarray:
    """Where a pixel and those to its right, `_WIDE` in all, are of one colour."""
    numbers = _numbers(pixels)
    goes_on = numbers[:, 1:] == numbers[:, :-1]
    before = np.cumsum(np.pad(goes_on, [(0, 0), (1, 0)]), axis=1, dtype=np.int32)
    return before[:, _WIDE - 1 :] - before[:, : 1 - _WIDE] == _WIDE - 1


def _numbers(pixels: np.ndarray) -> np.ndarray:
    """The colour of each pixel as one number: less to compare than three."""
    red, green, blue = np.moveaxis(pixels.astype(np.uint32), -1, 0)
    return (red << 16) | (green << 8) | blue


def _colours(numbers: np.ndarray) -> np.ndarray:
    """An image in one row of the colours that there are among numbers."""
    shifts = np.array([16, 8, 0], np.uint32)
    return ((np.unique(numbers)[None, :, None] >> shifts) & 255).astype(np.uint8)


def _palette(image: Image.Image, method: Image.Quantize) -> list[int]:
    """At most `_THIRD` colours of an image, three numbers each."""
    return (image.quantize(_THIRD, method=method).getpalette() or [])[: 3 * _THIRD]
