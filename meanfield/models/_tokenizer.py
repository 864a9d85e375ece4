"""Tokenization of texts, without padding or truncation."""

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
from .sources import read_content

# Maximum number of characters in a text, before and after the tokenizer expands it.
LONGEST_TEXT = 10_000_000
CHARACTERS = 100  # maximum number of characters per position; average words have fewer


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
    """Encodes a text with the `tokenizer.json` at `path`.

    Padding and truncation are switched off, because padding would add tokens that are
    not words. The file of all-MiniLM-L6-v2, for example, sets both to 128.

    Raises:
        InputFileError: if the file is missing or not a tokenizer.
        InvalidInputError: if the text is not valid Unicode, has no tokens, or has more
            than `limit` tokens.
        UnsupportedError: if the package `tokenizers` is missing.
    """
    _check_length(text, limit)
    with _tokenizer_errors(path):
        tokenizer = _tokenizer(path, len(text))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        encoding = tokenizer.encode(_check_unicode(text))
    n = len(encoding.ids)
    if n > limit:
        raise InvalidInputError(
            f"The text has {n} tokens, special tokens included, but the model has "
            f"{limit} positions; shorten the text or split it."
        )
    if sum(encoding.special_tokens_mask) == n:  # special tokens only
        raise InvalidInputError("The text has no tokens; enter at least one word.")
    return Encoding(np.asarray(encoding.ids, dtype=np.int64), tuple(encoding.tokens))


def unknown_token(path: Path) -> str | None:
    """The unknown token of the `tokenizer.json` at `path`, if it has one.

    Raises:
        InputFileError: if the file is missing or not JSON.
    """
    with _tokenizer_errors(path):
        stages = json_value(read_content(path))
    model = stages.get("model") if isinstance(stages, dict) else None
    return model.get("unk_token") if isinstance(model, dict) else None


def _check_length(text: str, limit: int) -> None:
    """Checks the length of a text, since encoding takes a hundred times its memory."""
    if limit == 0:
        raise InvalidInputError(
            "This model cannot read text. Leave out the text, and give `n` or `init`."
        )
    max_characters = min(CHARACTERS * limit, LONGEST_TEXT)
    if len(text) > max_characters:
        raise InvalidInputError(
            f"The text has {len(text)} characters, and a model of {limit} positions "
            f"reads at most {max_characters}; shorten the text or split it."
        )


def _tokenizer(path: Path, characters: int) -> Any:
    json_text = read_content(path)
    stages = json_value(json_text)
    times = expansion(stages) if isinstance(stages, dict) else 1.0
    if times * characters > LONGEST_TEXT:
        raise InputFileError(
            f"`{path}` may expand each character to {times:.3g} characters or tokens: "
            "too many for this text. Use another model or a shorter text."
        )
    return extra("tokenizers", "models").Tokenizer.from_str(json_text)


@contextmanager
def _tokenizer_errors(path: Path) -> Iterator[None]:
    """Turns errors of `tokenizers` about a file into one-line errors."""
    tokenizers = extra("tokenizers", "models")
    try:
        yield
    except (MeanfieldError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a Rust panic is not an `Exception`
        raise InputFileError(
            f"`{path}` is not a valid tokenizer for version "
            f"{tokenizers.__version__} of `tokenizers` ({error})."
        ) from error


def _check_unicode(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"The text is not valid Unicode at character {error.start}; encode it "
            "as UTF-8."
        ) from error
    return text


def resolve_text(value: str) -> str:
    """Returns the text itself, or for `@FILE` the contents of FILE.

    Raises:
        InputFileError: if the file cannot be read, is too long, or holds no text.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import models
        >>> _ = Path("alice.txt").write_text("Alice was tired.")
        >>> models.resolve_text("@alice.txt"), models.resolve_text("a cat")
        ('Alice was tired.', 'a cat')
    """
    if value[:1] != "@":
        return value
    path = path_of(value[1:])
    text = read_text(path, longest=LONGEST_TEXT)
    if not text.strip():
        raise InputFileError(
            f"`{path}` contains no text; write at least one word into it."
        )
    return text
