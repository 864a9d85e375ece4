"""Imports of optional packages, postponed until a command needs them."""

import importlib
from types import MappingProxyType, ModuleType

from .errors import UnsupportedError

_PURPOSES = MappingProxyType(
    {
        "formulas": "Typesetting formulas",
        "models": "Reading trained models",
        "train": "Training networks",
    }
)


def extra(module: str, name: str) -> ModuleType:
    """Imports `module`, which the optional extra `name` installs.

    Raises:
        UnsupportedError: if the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"{_PURPOSES[name]} needs the package `{module.partition('.')[0]}`; "
            f'install it with `pip install "meanfield-attention[{name}]"`.'
        ) from error
