"""A text becomes token ids: exactly its own tokens, neither padded nor truncated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from meanfield._extras import extra
from meanfield._reading import json_value, path_of, read_text
from meanfield.errors import InputFileError, InvalidInputError, MeanfieldError

from ._expansion import expansion
from .sources import content

LONGEST_TEXT = 10_000_000  # characters, as they are and as a tokenizer makes them
CHARACTERS = 100  # for each position: words have fewer, on average


class Encoding(NamedTuple):
    """Token ids and their strings, special tokens included.

    Examples:
        >>> from meanfield import models
        >>> encoding = models.load("minilm").encode("Alice was tired.", limit=512)
        >>> encoding.words
        ('[CLS]', 'alice', 'was', 'tired', '.', '[SEP]')
    """

    ids: Int[np.ndarray, " n"]
    words: tuple[str, ...]


def encode(path: Path, text: str, *, limit: int) -> Encoding:
    """The tokens of a text, by the `tokenizer.json` at `path`.

    Files of sentence encoders pad and truncate, all-MiniLM-L6-v2's to 128 tokens; a
    padded cloud would have atoms that are no words, so both are switched off.

    Raises:
        InputFileError: if the file is missing or not a tokenizer.
        InvalidInputError: if the text is not valid Unicode, has no token, or has more
            than `limit`.
        UnsupportedError: if the package `tokenizers` is missing.
    """
    _refuse_long(text, limit)
    with _blamed_on(path):
        tokenizer = _tokenizer(path, len(text))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        encoding = tokenizer.encode(_valid(text))
    n = len(encoding.ids)
    if n > limit:
        raise InvalidInputError(
            f"The text has {n} tokens, special tokens included, but the model has "
            f"{limit} positions; shorten the text or split it."
        )
    if sum(encoding.special_tokens_mask) == n:  # as [CLS] and [SEP] stand around none
        raise InvalidInputError("The text has no token; give at least one word.")
    return Encoding(np.asarray(encoding.ids, dtype=np.int64), tuple(encoding.tokens))


def unknown_token(path: Path) -> str | None:
    """The token of all that the `tokenizer.json` at `path` does not know, if any.

    Raises:
        InputFileError: if the file is missing or not JSON.
    """
    with _blamed_on(path):
        stages = json_value(content(path))
    model = stages.get("model") if isinstance(stages, dict) else None
    return model.get("unk_token") if isinstance(model, dict) else None


def _refuse_long(text: str, limit: int) -> None:
    """Refuses at once what could only be refused after a hundred times its memory."""
    if limit == 0:
        raise InvalidInputError(
            "The model has no words: leave out the text, and give `n` or `init`."
        )
    most = min(CHARACTERS * limit, LONGEST_TEXT)
    if len(text) > most:
        raise InvalidInputError(
            f"The text has {len(text)} characters, and a model of {limit} positions "
            f"reads at most {most}; shorten the text or split it."
        )


def _tokenizer(path: Path, characters: int) -> Any:
    serialised = content(path)
    stages = json_value(serialised)
    times = expansion(stages) if isinstance(stages, dict) else 1.0
    if times * characters > LONGEST_TEXT:
        raise InputFileError(
            f"`{path}` can make {times:.3g} characters or tokens of one: its rules are "
            "not run on a text, whose size they would multiply. Use another model."
        )
    return extra("tokenizers", "models").Tokenizer.from_str(serialised)


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """Turns what `tokenizers` says of a file into one line."""
    tokenizers = extra("tokenizers", "models")
    try:
        yield
    except (MeanfieldError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # it raises nothing narrower; panics are no others
        raise InputFileError(
            f"`{path}` is not a tokenizer that `tokenizers` "
            f"{tokenizers.__version__} can use ({error})."
        ) from error


def _valid(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"The text is not valid Unicode at character {error.start}; give UTF-8."
        ) from error
    return text


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
