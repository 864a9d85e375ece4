"""A checkpoint on disk: named arrays read when asked for, a config, a tokenizer.

Only NumPy and two small readers, `safetensors` and `tokenizers`; no framework, no
network.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from meanfield._display import Card
from meanfield._extras import extra
from meanfield._reading import json_value
from meanfield.errors import InputFileError

from ._tokenizer import Encoding, encode, unknown_token
from .sources import content, existing, locate

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
PICKLED = "pytorch_model.bin"
FLOATING = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
VOCABULARY = "vocab.txt"
TOKENISING = (
    "python -c 'from transformers import BertTokenizerFast as b; "
    'b.from_pretrained(".").save_pretrained(".")\''
)
CONVERSION = (
    "python -c 'import torch, safetensors.torch as s; "
    f'w = torch.load("{PICKLED}", weights_only=True); '
    f's.save_file({{k: v.contiguous().clone() for k, v in w.items()}}, "{WEIGHTS}")\''
)


class Entry(NamedTuple):
    """What the header of a weights file says of one array."""

    shape: tuple[int, ...]
    dtype: str


@final
@dataclass(frozen=True)
class Checkpoint:
    """A folder of weights, config and tokenizer; arrays are read when asked for.

    Attributes:
        folder: where the files are.
        config: `config.json`, as it stands.
        entries: shape and dtype of every array in `model.safetensors`.

    Examples:
        >>> from meanfield import models
        >>> checkpoint = models.load("minilm")
        >>> checkpoint.config["model_type"], checkpoint.weights.name
        ('bert', 'model.safetensors')
    """

    folder: Path
    config: Mapping[str, Any]
    entries: Mapping[str, Entry]

    @property
    def weights(self) -> Path:
        """The file of the arrays."""
        return self.folder / WEIGHTS

    @property
    def tokenizer(self) -> Path:
        """The file that says how a text becomes tokens."""
        return self.folder / TOKENIZER

    @override
    def __repr__(self) -> str:
        facts = {
            "type": str(self.config.get("model_type", "not stated")),
            "arrays": str(len(self.entries)),
            "dtypes": "/".join(
                sorted({entry.dtype for entry in self.entries.values()})
            ),
            "folder": str(self.folder),
        }
        return Card("Checkpoint", facts).text

    def arrays(self, names: Sequence[str]) -> tuple[Float[np.ndarray, "..."], ...]:
        """The named arrays, in double precision; nothing else is read.

        Raises:
            InputFileError: if a name is absent, or an array is not of floating point,
                or has entries that are not finite.
        """
        self._require(names)
        with _opened(self.weights) as file:
            stored = [file.get_tensor(name) for name in names]
        return tuple(map(self._double, names, stored))

    def rows(self, name: str, indices: Sequence[int]) -> Float[np.ndarray, "n d"]:
        """Some rows of a matrix, in double precision; no other row is read.

        Raises:
            InputFileError: if the name is no matrix, or not of floating point, or a row
                is absent or not finite.
        """
        self._require([name])
        shape = self.entries[name].shape
        if len(shape) != 2 or not all(0 <= i < shape[0] for i in indices):
            raise InputFileError(
                f"`{name}` in `{self.weights}` has shape {shape}, but row "
                f"{max(indices)} was asked for; do {CONFIG} and {TOKENIZER} belong "
                "to it?"
            )
        with _opened(self.weights) as file:
            matrix = file.get_slice(name)
            stored = [matrix[i : i + 1] for i in indices]
        return self._double(name, np.concatenate(stored))

    def encode(self, text: str, *, limit: int) -> Encoding:
        """The token ids of a text with their strings, special tokens included.

        Raises:
            InputFileError: if `tokenizer.json` is missing or damaged.
            InvalidInputError: if the text has more than `limit` tokens, or none.
            UnsupportedError: if the package `tokenizers` is missing.
        """
        self._refuse_bare_vocabulary()
        return encode(self.tokenizer, text, limit=limit)

    def count_unknown(self, words: Sequence[str]) -> int:
        """How many tokens of a text stand for what the tokenizer does not know.

        Raises:
            InputFileError: if `tokenizer.json` is missing or damaged.
            UnsupportedError: if the package `tokenizers` is missing.
        """
        return list(words).count(unknown_token(self.tokenizer) or "")

    def _refuse_bare_vocabulary(self) -> None:
        """Says how to make a tokenizer of the list of words that old folders hold."""
        if (self.folder / VOCABULARY).is_file() and not self.tokenizer.is_file():
            raise InputFileError(
                f"There is no file `{self.tokenizer}`, and {VOCABULARY} alone is not "
                "read, for it says nothing of how words are cut; where transformers "
                f"is installed, make it in that folder: `{TOKENISING}`."
            )

    def _require(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self.entries]
        if missing:
            raise InputFileError(
                f"`{self.weights}` has no array `{missing[0]}`, which its {CONFIG} "
                "promises; the two do not belong together."
            )
        self._refuse_codes(names)

    def _refuse_codes(self, names: Iterable[str]) -> None:
        """Refuses arrays of whole numbers: without their scales they are no weights."""
        dtypes = {name: self.entries[name].dtype for name in names}
        codes = [name for name, dtype in dtypes.items() if dtype not in FLOATING]
        if codes:
            raise InputFileError(
                f"`{codes[0]}` in `{self.weights}` is stored as {dtypes[codes[0]]}, "
                f"which is not read: {', '.join(FLOATING.values())} are; save weights "
                "that are quantised as one of these, with their scales multiplied in."
            )

    def _double(self, name: str, stored: np.ndarray) -> Float[np.ndarray, "..."]:
        array = stored.astype(np.float64)
        if not np.isfinite(array).all():
            raise InputFileError(
                f"`{name}` in `{self.weights}` has entries that are not finite; "
                "fetch the file again, or, if you trained it, look for where training "
                "diverged."
            )
        return array


def load(source: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint of a known name, such as `"minilm"`, or of a folder.

    Reads the config and the header of the weights, not the weights.

    Raises:
        InputFileError: if a file is missing or damaged.
        UnsupportedError: if the package `safetensors` is missing.

    Examples:
        >>> from meanfield import models
        >>> models.load("minilm").config["hidden_size"]
        384
    """
    folder = locate(source)
    config = _config(folder / CONFIG)
    _refuse_pickled(folder)
    with _opened(folder / WEIGHTS) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        entries = {
            name: Entry(tuple(part.get_shape()), part.get_dtype())
            for name, part in slices.items()
        }
    return Checkpoint(folder, config, entries)


def _refuse_pickled(folder: Path) -> None:
    """Says how to convert weights that only PyTorch reads."""
    if (folder / WEIGHTS).exists() or not (folder / PICKLED).is_file():
        return
    raise InputFileError(
        f"`{folder}` holds {PICKLED} and no {WEIGHTS}; where PyTorch is installed, "
        f"convert it in that folder: `{CONVERSION}`."
    )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    safetensors = extra("safetensors", "models")
    extra("ml_dtypes", "models")  # NumPy knows bfloat16 by it, where JAX is not loaded
    existing(path)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            yield file
    except (safetensors.SafetensorError, OSError) as error:
        raise InputFileError(
            f"`{path}` is not a whole safetensors file ({error}); fetch it again."
        ) from error


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json_value(content(path))
    except ValueError as error:
        raise InputFileError(
            f"`{path}` is not JSON: {error}; fetch it again."
        ) from error
    if not isinstance(config, dict):
        raise InputFileError(f"`{path}` must hold one JSON object; fetch it again.")
    return config
