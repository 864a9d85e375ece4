"""Checkpoints on disk: a config, a tokenizer, and named arrays that are read lazily.

Reading them takes only NumPy and two small packages, `safetensors` and `tokenizers`. It
needs no deep learning framework and no internet.
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
from .sources import locate, read_content, require_file

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
PICKLE = "pytorch_model.bin"
FLOATING = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
VOCABULARY = "vocab.txt"
TOKENIZER_COMMAND = (
    "python -c 'from transformers import BertTokenizerFast as b; "
    'b.from_pretrained(".").save_pretrained(".")\''
)
CONVERSION_COMMAND = (
    "python -c 'import torch, safetensors.torch as s; "
    f'w = torch.load("{PICKLE}", weights_only=True); '
    f's.save_file({{k: v.contiguous().clone() for k, v in w.items()}}, "{WEIGHTS}")\''
)


class Entry(NamedTuple):
    """Shape and dtype of one array, from the header of a weights file."""

    shape: tuple[int, ...]
    dtype: str


@final
@dataclass(frozen=True)
class Checkpoint:
    """A folder with weights, config and tokenizer; arrays are read lazily.

    Attributes:
        folder: the folder of the files.
        config: the contents of `config.json`.
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
        """The path of the file with the arrays."""
        return self.folder / WEIGHTS

    @property
    def tokenizer(self) -> Path:
        """The path of the tokenizer file."""
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
        """Reads only the named arrays, in double precision.

        Raises:
            InputFileError: if an array is missing, does not hold floating-point
                numbers, or has entries that are not finite.
        """
        self._require(names)
        with _open_weights(self.weights) as file:
            tensors = [file.get_tensor(name) for name in names]
        return tuple(map(self._double, names, tensors))

    def rows(self, name: str, indices: Sequence[int]) -> Float[np.ndarray, "n d"]:
        """Reads only the given rows of a matrix, in double precision.

        Raises:
            InputFileError: if the array is missing, is not a matrix or does not hold
                floating-point numbers, or if a row is missing or not finite.
        """
        self._require([name])
        shape = self.entries[name].shape
        if len(shape) != 2 or not all(0 <= i < shape[0] for i in indices):
            raise InputFileError(
                f"`{name}` in `{self.weights}` has shape {shape}, but the text needs "
                f"row {max(indices)}; check that {CONFIG} and {TOKENIZER} fit the file."
            )
        with _open_weights(self.weights) as file:
            matrix = file.get_slice(name)
            row_arrays = [matrix[i : i + 1] for i in indices]
        return self._double(name, np.concatenate(row_arrays))

    def encode(self, text: str, *, limit: int) -> Encoding:
        """The token ids of a text with their strings, special tokens included.

        Raises:
            InputFileError: if `tokenizer.json` is missing or damaged.
            InvalidInputError: if the text has more than `limit` tokens, or none.
            UnsupportedError: if the package `tokenizers` is missing.
        """
        self._check_tokenizer()
        return encode(self.tokenizer, text, limit=limit)

    def count_unknown(self, words: Sequence[str]) -> int:
        """The number of tokens of a text that are the tokenizer's unknown token.

        Raises:
            InputFileError: if `tokenizer.json` is missing or damaged.
            UnsupportedError: if the package `tokenizers` is missing.
        """
        return list(words).count(unknown_token(self.tokenizer) or "")

    def _check_tokenizer(self) -> None:
        """Raises for an old folder that has only a vocabulary, and says what to do."""
        if (self.folder / VOCABULARY).is_file() and not self.tokenizer.is_file():
            raise InputFileError(
                f"There is no file `{self.tokenizer}`, and {VOCABULARY} alone does not "
                "say how words are split into tokens. To create the file, install "
                f"transformers and run in that folder: `{TOKENIZER_COMMAND}`."
            )

    def _require(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self.entries]
        if missing:
            raise InputFileError(
                f"`{self.weights}` has no array `{missing[0]}`, which {CONFIG} "
                "requires; the two files do not belong together."
            )
        self._check_floating(names)

    def _check_floating(self, names: Iterable[str]) -> None:
        """Raises for integer arrays: quantised weights need their scales."""
        dtypes = {name: self.entries[name].dtype for name in names}
        codes = [name for name, dtype in dtypes.items() if dtype not in FLOATING]
        if codes:
            raise InputFileError(
                f"`{codes[0]}` in `{self.weights}` is stored as {dtypes[codes[0]]}, "
                f"but must be one of {', '.join(FLOATING.values())}. Save quantised "
                "weights in one of these types, with their scales multiplied in."
            )

    def _double(self, name: str, values: np.ndarray) -> Float[np.ndarray, "..."]:
        array = values.astype(np.float64)
        if not np.isfinite(array).all():
            raise InputFileError(
                f"`{name}` in `{self.weights}` has entries that are not finite; "
                "download the file again or, if you trained the network, check where "
                "training diverged."
            )
        return array


def load(source: str | os.PathLike[str]) -> Checkpoint:
    """Opens the checkpoint of a known model, such as `"minilm"`, or of a folder.

    It reads the config and the header of the weights, not the weights.

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
    _check_format(folder)
    with _open_weights(folder / WEIGHTS) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        entries = {
            name: Entry(tuple(part.get_shape()), part.get_dtype())
            for name, part in slices.items()
        }
    return Checkpoint(folder, config, entries)


def _check_format(folder: Path) -> None:
    """Raises for weights that only PyTorch can read, and tells how to convert them."""
    if (folder / WEIGHTS).exists() or not (folder / PICKLE).is_file():
        return
    raise InputFileError(
        f"`{folder}` contains {PICKLE} but no {WEIGHTS}. To convert the file, install "
        f"PyTorch and run in that folder: `{CONVERSION_COMMAND}`."
    )


@contextmanager
def _open_weights(path: Path) -> Iterator[Any]:
    safetensors = extra("safetensors", "models")
    extra("ml_dtypes", "models")  # gives NumPy the dtype bfloat16 without JAX
    require_file(path)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            yield file
    except (safetensors.SafetensorError, OSError) as error:
        raise InputFileError(
            f"`{path}` is not a complete safetensors file ({error}); download it again."
        ) from error


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json_value(read_content(path))
    except ValueError as error:
        raise InputFileError(
            f"`{path}` is not JSON: {error}; download it again."
        ) from error
    if not isinstance(config, dict):
        raise InputFileError(f"`{path}` must be one JSON object; download it again.")
    return config
