"""A text becomes token ids: exactly its own tokens, neither padded nor truncated."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from meanfield.errors import InputFileError, InvalidInputError

from ._reading import content, extra


class Encoding(NamedTuple):
    """Token ids and their strings, special tokens included."""

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
    tokenizer = _tokenizer(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoding = tokenizer.encode(_valid(text))
    n = len(encoding.ids)
    if n > limit:
        raise InvalidInputError(
            f"The text has {n} tokens, special tokens included, but the model has "
            f"{limit} positions; shorten the text or split it."
        )
    if n == 0:
        raise InvalidInputError("The text has no token; give at least one word.")
    return Encoding(np.asarray(encoding.ids, dtype=np.int64), tuple(encoding.tokens))


def _tokenizer(path: Path) -> Any:
    tokenizers = extra("tokenizers")
    serialised = content(path)
    try:
        return tokenizers.Tokenizer.from_str(serialised)
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise InputFileError(
            f"`{path}` is not a tokenizer that `tokenizers` "
            f"{tokenizers.__version__} can read ({error})."
        ) from error


def _valid(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"The text is not valid Unicode at character {error.start}; give UTF-8."
        ) from error
    return text
