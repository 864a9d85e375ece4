"""Experiments by name: one file each in the folder `experiments`."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from meanfield._folders import holder
from meanfield._registry import suggestion
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    MeanfieldError,
    UnknownNameError,
)

from ._experiment import Experiment, Reading

FOLDER = "experiments"
PATTERNS = "*_fig*.py", "[!_]*_limit.py"  # figures of papers, and limits of theirs


def root() -> Path:
    """The place that holds the experiments: a checkout, or the installed package.

    Raises:
        InputFileError: if neither does.
    """
    return holder(FOLDER)


def names() -> list[str]:
    """The names of all experiments, in order."""
    files = [each for p in PATTERNS for each in (root() / FOLDER).glob(p)]
    return sorted(file.stem.replace("_", "-") for file in files)


def chosen(asked: Sequence[str], reading: Reading | None) -> dict[str, Experiment]:
    """The experiments that are asked for, by name; of `all`, those with that reading.

    The name of a figure stands for all its panels.

    Raises:
        UnknownNameError: if there is none of a name.
        InvalidInputError: if one that is named has no such reading.
    """
    every = names()
    named = [each for each in asked if each != "all"]
    listed = [_known(name, every) for each in named for name in _panels(each, every)]
    found = {name: load(name) for name in (every if "all" in asked else listed)}
    without = [
        name for name, each in found.items() if reading not in (None, *each.readings)
    ]
    if "all" not in asked and without:
        raise InvalidInputError(
            f"`{without[0]}` has no reading `{reading}`, only "
            f"`{found[without[0]].readings[0]}`: leave out --as."
        )
    return {name: each for name, each in found.items() if name not in without}


def _panels(name: str, every: Sequence[str]) -> list[str]:
    """The panels of a figure; a name that is none stands for itself."""
    panels = [each for each in every if each[:-1] == name and each[-1].isalpha()]
    return panels or [name]


def load(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UnknownNameError: if there is none.
        InputFileError: if its file defines no `EXPERIMENT`.
    """
    _known(name, names())
    folder = str(root())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _imported(f"{FOLDER}.{name.replace('-', '_')}")
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise InputFileError(f"`{module.__file__}` defines no `EXPERIMENT`.")
    return experiment


def _known(name: str, every: Sequence[str]) -> str:
    if name not in every:
        near = suggestion(name, list(every))
        raise UnknownNameError(f"There is no figure `{name}`; {near}")
    return name


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except MeanfieldError:
        raise
    except (SyntaxError, ImportError, NameError, AttributeError, TypeError) as error:
        place = f"{name.replace('.', '/')}.py"
        raise InputFileError(
            f"The experiment `{place}` cannot be imported: {type(error).__name__}: "
            f"{error}."
        ) from error
