"""What is to be said of a text that moves through a model."""

import textwrap

from meanfield import models
from meanfield.cli.terminal._output import note

LETTERS = 50  # of a text, printed for people


def named(text: str) -> str:
    """A file of a text, or the beginning of the text."""
    if text[:1] == "@":
        return text
    return f"“{textwrap.shorten(text, LETTERS, placeholder=' …')}”"


def note_unknown(model: str, text: str) -> None:
    """Says how many tokens of a text the tokenizer of a model does not know, if any."""
    checkpoint = models.load(model)
    positions = models.read(checkpoint).sizes.max_positions
    words = checkpoint.encode(models.text_in(text), limit=positions).words
    if count := checkpoint.count_unknown(words):
        note(
            f"the tokenizer of {model} does not know {count} of the text's "
            f"{len(words)} tokens: the model has one and the same word for them all"
        )
