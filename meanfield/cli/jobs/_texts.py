"""Texts given to a model, and the words of a run's tokens."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    import xarray

SPLIT = "Q = A, K = I; the flow depends on both: `--Q` and `--K` give others"
ASSUMPTION = "A = I, by default: `--A`, or `--Q` and `--K`, give others"
LETTERS = 50  # at most this many characters of a text are printed

# Errors raised if a text, its model or its tokenizer is missing or has changed.
_TEXT_ERRORS = (InputFileError, InvalidInputError, UnsupportedError)


def add_word_labels(
    run: Path, data: "xarray.Dataset", medium: str, notify: Callable[[str], None] = note
) -> "xarray.Dataset":
    """The dataset of a run with the words of its tokens, if they can be found.

    Otherwise a sentence with the reason goes to `notify`, and into the attribute
    `wordless` of the dataset.

    Args:
        run: folder of the run.
        data: dataset of the run.
        medium: subject of that sentence: `picture` or `page`.
        notify: function that shows the sentence.
    """
    from meanfield import runs

    try:
        return runs.add_word_coordinate(run, data)
    except _TEXT_ERRORS as error:
        sentence = f"the {medium} has no words: {error}"
        notify(sentence)
        return data.assign_attrs(wordless=sentence)


def text_label(text: str) -> str:
    """Label of a text: its file, or its beginning in quotation marks."""
    if text[:1] == "@":
        return text
    return f"“{textwrap.shorten(text, LETTERS, placeholder=' …')}”"


def note_unknown(model: str, text: str) -> None:
    """Prints how many tokens of a text the tokenizer of the model does not know."""
    from meanfield import models

    checkpoint = models.load(model)
    positions = models.read(checkpoint).sizes.max_positions
    tokens = checkpoint.encode(models.resolve_text(text), limit=positions).words
    if count := checkpoint.count_unknown(tokens):
        note(
            f"the tokenizer of {model} does not know {count} of the text's "
            f"{len(tokens)} tokens, and maps them all to the same unknown token"
        )
