"""PNG images with a palette, which look the same at about a third of the size."""

from io import BytesIO

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

# A third of the palette is for the colours of areas, which keeps colour scales even; a
# third is for the most frequent colours, which keeps gradients smooth; and a third is
# for the others, which keeps the colours of thin lines and small marks.
_THIRD = 85
WHITE = (255, 255, 255)
_TOLERANCE = 8  # largest error of an area's colour, on a scale from 0 to 255
_WIDE = 16  # number of adjacent equal pixels that form an area


def palette_image(figure: Figure) -> Image.Image:
    """The figure as an image with a palette, or in full colour if that looks better."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", pil_kwargs={"compress_level": 0})
    image = Image.open(buffer).convert("RGB")
    palette = Image.new("P", (1, 1))
    pixels = np.asarray(image)
    areas = _colours(_numbers(pixels)[:, : 1 - _WIDE][_areas(pixels)])
    colours = [*WHITE]
    if areas.size:
        colours += _palette(Image.fromarray(areas), Image.Quantize.MEDIANCUT)
    colours += _palette(image, Image.Quantize.MEDIANCUT)
    colours += _palette(image, Image.Quantize.MAXCOVERAGE)
    colours = colours[: 3 * 256]
    palette.putpalette(colours)
    indices = image.quantize(palette=palette, dither=Image.Dither.NONE)
    # Pillow finds nearest colours only approximately, but white must stay white.
    white = np.all(pixels == WHITE, axis=-1)
    reduced_image = Image.fromarray(
        np.where(white, 0, np.asarray(indices)).astype(np.uint8)
    )
    reduced_image.putpalette(colours)
    return image if _has_visible_error(reduced_image, image) else reduced_image


def _has_visible_error(reduced_image: Image.Image, image: Image.Image) -> bool:
    """Whether the palette visibly changes colours of areas, such as a colour bar."""
    pixels, true = (
        np.asarray(i.convert("RGB"), np.int16) for i in (reduced_image, image)
    )
    is_off = np.any(np.abs(pixels - true) > _TOLERANCE, axis=-1)
    return bool(np.any(is_off[:, : 1 - _WIDE] & _areas(true)))


def _areas(pixels: np.ndarray) -> np.ndarray:
    """Mask of the pixels that are the first of `_WIDE` equal pixels in their row."""
    numbers = _numbers(pixels)
    goes_on = numbers[:, 1:] == numbers[:, :-1]
    counts = np.cumsum(np.pad(goes_on, [(0, 0), (1, 0)]), axis=1, dtype=np.int32)
    return counts[:, _WIDE - 1 :] - counts[:, : 1 - _WIDE] == _WIDE - 1


def _numbers(pixels: np.ndarray) -> np.ndarray:
    """The colour of each pixel as one integer, for fast comparison."""
    red, green, blue = np.moveaxis(pixels.astype(np.uint32), -1, 0)
    return (red << 16) | (green << 8) | blue


def _colours(numbers: np.ndarray) -> np.ndarray:
    """An image of one row, with a pixel for each distinct colour in `numbers`."""
    shifts = np.array([16, 8, 0], np.uint32)
    return ((np.unique(numbers)[None, :, None] >> shifts) & 255).astype(np.uint8)


def _palette(image: Image.Image, method: Image.Quantize) -> list[int]:
    """The palette of an image: at most `_THIRD` colours, three numbers each."""
    return (image.quantize(_THIRD, method=method).getpalette() or [])[: 3 * _THIRD]
