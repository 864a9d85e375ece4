"""Messages for users, in place of the warnings that matplotlib gives while drawing."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError

_GLYPH = re.compile(r"Glyph (\d+) .* missing from font")
_NO_ROOM = "constrained_layout not applied"


@contextmanager
def translate_warnings(figure: Figure) -> Iterator[None]:
    """Context manager that gives one warning for all characters that no font contains.

    Raises:
        InvalidInputError: if the figure has no room for its axes.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    if any(message.startswith(_NO_ROOM) for message in messages):
        width, height = figure.get_size_inches()
        raise InvalidInputError(
            f"A picture of {width:.3g} by {height:.3g} inches has no room for its "
            "axes: choose a larger `width` or `height`, or a smaller `fontsize`."
        )
    _warn_of_characters(messages)
    for warning, message in zip(caught, messages, strict=True):
        if not _GLYPH.match(message):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _warn_of_characters(messages: Sequence[str]) -> None:
    matches = [match for m in messages if (match := _GLYPH.match(m))]
    characters = "".join(sorted({chr(int(match[1])) for match in matches}))
    if characters:
        warnings.warn(
            f"No font contains {characters}, drawn as boxes. Install a font that has "
            "these characters, such as Noto Sans CJK.",
            stacklevel=4,
        )
