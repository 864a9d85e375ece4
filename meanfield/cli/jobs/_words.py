"""Texts that move through a model, and the words of the tokens of a run."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    import xarray

ASSUMED = "A = I, by default: `--A`, or `--Q` and `--K`, give others"
LETTERS = 50  # of a text, printed for people

# The text, the model or what reads it has gone, or is not what it was.
_GONE = (InputFileError, InvalidInputError, UnsupportedError)


def worded(
    run: Path,
    data: "xarray.Dataset",
    what: str,
    tell: Callable[[str], None] = note,
) -> "xarray.Dataset":
    """The dataset of a run with the words of its tokens; without them, `tell` says why.

    Args:
        run: the folder of the run.
        data: its dataset.
        what: has no words then: `picture` or `page`. The dataset has the sentence as
            its attribute `wordless`.
        tell: takes the sentence.
    """
    from meanfield import runs

    try:
        return runs.with_words(run, data)
    except _GONE as error:
        sentence = f"the {what} has no words: {error}"
        tell(sentence)
        return data.assign_attrs(wordless=sentence)


def named(text: str) -> str:
    """A file of a text, or the beginning of the text."""
    if text[:1] == "@":
        return text
    return f"“{textwrap.shorten(text, LETTERS, placeholder=' …')}”"


def note_unknown(model: str, text: str) -> None:
    """Says how many tokens of a text the tokenizer of a model does not know, if any."""
    from meanfield import models

    checkpoint = models.load(model)
    positions = models.read(checkpoint).sizes.max_positions
    words = checkpoint.encode(models.text_in(text), limit=positions).words
    if count := checkpoint.count_unknown(words):
        note(
            f"the tokenizer of {model} does not know {count} of the text's "
            f"{len(words)} tokens: the model has one and the same word for them all"
        )
