"""A verification, whose page the pictures have; checked before it is believed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meanfield.errors import InputFileError
from meanfield.plotting.pages import statements_page

_FAULTS = (AttributeError, LookupError, TypeError, ValueError)


def verification_page(file: Path, record: Mapping[str, Any]) -> str:
    """The page of the statements, their controls, numbers and plots, with filters.

    Raises:
        InputFileError: if the record is not what `meanfield verify --json` prints.
    """
    try:
        return statements_page(record)
    except _FAULTS as error:
        raise InputFileError(
            f"`{file}` is not what `meanfield verify --json` prints "
            f"({type(error).__name__}: {error}); measure anew."
        ) from error
