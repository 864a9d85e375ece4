"""What every reader needs: its optional package, and a file that is there."""

import importlib
from pathlib import Path
from types import ModuleType

from meanfield._reading import read_text
from meanfield.errors import InputFileError, UnsupportedError

CONTENTS = "a folder holding model.safetensors, config.json and tokenizer.json"


def extra(package: str) -> ModuleType:
    """A package of the optional extra `models`.

    Raises:
        UnsupportedError: if it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Reading trained models needs the package `{package}`; write "
            '`pip install "meanfield-attention[models]"`.'
        ) from error


def existing(path: Path) -> Path:
    """The path itself, of a file that is there.

    Raises:
        InputFileError: if it is not.
    """
    if not path.is_file():
        raise InputFileError(f"There is no file `{path}`; pass {CONTENTS}.")
    return path


def content(path: Path) -> str:
    """The text in a file.

    Raises:
        InputFileError: if the file is missing, unreadable, not UTF-8 or too long.
    """
    return read_text(existing(path))
