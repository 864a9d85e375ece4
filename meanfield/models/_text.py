"""A text as people give it: typed, or in a file."""

from meanfield._reading import path_of, read_text
from meanfield.errors import InputFileError

from ._tokenizer import LONGEST_TEXT


def text_in(value: str) -> str:
    """The text itself, or what is in FILE for `@FILE`.

    Raises:
        InputFileError: if the file cannot be read, is too long, or holds no text.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import models
        >>> _ = Path("alice.txt").write_text("Alice was tired.")
        >>> models.text_in("@alice.txt"), models.text_in("a cat")
        ('Alice was tired.', 'a cat')
    """
    if value[:1] != "@":
        return value
    path = path_of(value[1:])
    text = read_text(path, longest=LONGEST_TEXT)
    if not text.strip():
        raise InputFileError(
            f"`{path}` holds no text; write at least one word into it."
        )
    return text
