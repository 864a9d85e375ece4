"""Files that readers of models need, each present and of a size to be read."""

from pathlib import Path

from meanfield._reading import read_text
from meanfield.errors import InputFileError

CONTENTS = "a folder holding model.safetensors, config.json and tokenizer.json"


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
