"""What is to be said of a text before it moves through a model."""

from meanfield import models
from meanfield.cli.terminal._output import note


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
