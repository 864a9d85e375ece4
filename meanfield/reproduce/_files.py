"""Experiments by name: one file each, anywhere in the folder `experiments`."""

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
# Figures and tables of papers, limits of theirs, and what they suppose.
PATTERNS = "*_fig*.py", "*_table*.py", "*_limit.py", "*_hypotheses.py"


def root() -> Path:
    """The place that holds the experiments: a checkout, or the installed package.

    Raises:
        InputFileError: if neither does.

    Examples:
        >>> from meanfield.reproduce import root
        >>> (root() / "experiments").is_dir()
        True
    """
    return holder(FOLDER)


def names() -> list[str]:
    """The names of all experiments, in order.

    Examples:
        >>> from meanfield.reproduce import names
        >>> "castin2025-fig1b" in names()
        True
    """
    return sorted(_modules(root()))


def _modules(folder: Path) -> dict[str, str]:
    """The modules of all experiments by their names, which are those of the files."""
    files = [f for pattern in PATTERNS for f in (folder / FOLDER).rglob(pattern)]
    places = [file.relative_to(folder).with_suffix("") for file in files]
    return {place.name.replace("_", "-"): ".".join(place.parts) for place in places}


def chosen(requests: Sequence[str], reading: Reading | None) -> dict[str, Experiment]:
    """The experiments that are asked for, by name; of `all`, those with that reading.

    The name of a figure stands for all its panels.

    Raises:
        UnknownNameError: if there is none of a name.
        InvalidInputError: if one that is named has no such reading.

    Examples:
        >>> from meanfield.reproduce import chosen
        >>> list(chosen(["castin2025-fig1b"], "text"))
        ['castin2025-fig1b']
    """
    folder = root()
    modules = _modules(folder)
    figures = sorted(modules)
    single = [request for request in requests if request != "all"]
    panels = [_checked(n, figures) for name in single for n in _panels(name, figures)]
    selection = figures if "all" in requests else panels
    experiments = {name: _experiment(folder, modules[name]) for name in selection}
    without = [n for n, e in experiments.items() if reading not in (None, *e.readings)]
    if "all" not in requests and without:
        others = ", ".join(f"`{other}`" for other in experiments[without[0]].readings)
        raise InvalidInputError(
            f"`{without[0]}` has no reading `{reading}`, only {others}: "
            "without --as it is the first."
        )
    return {name: e for name, e in experiments.items() if name not in without}


def _panels(name: str, figures: Sequence[str]) -> list[str]:
    """The panels of a figure; a name that is none stands for itself."""
    panels = [panel for panel in figures if panel[:-1] == name and panel[-1].isalpha()]
    return panels or [name]


def load(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UnknownNameError: if there is none.
        InputFileError: if its file defines no `EXPERIMENT`.

    Examples:
        >>> from meanfield.reproduce import load
        >>> load("castin2025-fig1b").claim[:30]
        'Where A + Aᵀ is negative semid'
    """
    folder = root()
    modules = _modules(folder)
    return _experiment(folder, modules[_checked(name, sorted(modules))])


def _experiment(folder: Path, name: str) -> Experiment:
    """What a module in a folder defines."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module = _imported(name)
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise InputFileError(f"`{module.__file__}` defines no `EXPERIMENT`.")
    return experiment


def _checked(name: str, figures: Sequence[str]) -> str:
    if name not in figures:
        near = suggestion(name, list(figures))
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
