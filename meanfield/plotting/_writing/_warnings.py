"""What matplotlib warns of while it draws, as a reader needs to hear it."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError

_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")
_NO_ROOM = "constrained_layout not applied"


@contextmanager
def told_plainly(figure: Figure) -> Iterator[None]:
    """Draws in a block; one warning of ours names all characters that no font has.

    Raises:
        InvalidInputError: if the figure has no room for its axes.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(one.message) for one in caught]
    if any(message.startswith(_NO_ROOM) for message in messages):
        width, height = figure.get_size_inches()
        raise InvalidInputError(
            f"A picture of {width:.3g} by {height:.3g} inches has no room for its "
            "axes: choose a larger `width` or `height`, or a smaller `fontsize`."
        )
    _warn_of_characters(messages)
    for one, message in zip(caught, messages, strict=True):
        if not _GLYPH.match(message):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _warn_of_characters(messages: Sequence[str]) -> None:
    found = [match for m in messages if (match := _GLYPH.match(m))]
    characters = "".join(sorted({chr(int(match[1])) for match in found}))
    if characters:
        warnings.warn(
            f"No font here has {characters}, drawn as boxes: install one that has "
            "them, such as Noto Sans CJK.",
            stacklevel=4,
        )
