"""Finds experiments by name; each is a file in the folder `experiments`."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from meanfield._folders import root_of
from meanfield._registry import suggestion
from meanfield.errors import (
    InputFileError,
    InvalidInputError,
    MeanfieldError,
    UnknownNameError,
)

from ._experiment import Experiment, Reading

FOLDER = "experiments"
# File names of experiments: figures and tables of papers, limits, and hypotheses.
PATTERNS = "*_fig*.py", "*_table*.py", "*_limit.py", "*_hypotheses.py"


def root() -> Path:
    """The folder that contains `experiments`: a checkout, or the installed package.

    Raises:
        InputFileError: if neither contains it.

    Examples:
        >>> from meanfield.reproduce import root
        >>> (root() / "experiments").is_dir()
        True
    """
    return root_of(FOLDER)


def names() -> list[str]:
    """The names of all experiments, sorted.

    Examples:
        >>> from meanfield.reproduce import names
        >>> "castin2025-fig1b" in names()
        True
    """
    return sorted(_modules(root()))


def _modules(folder: Path) -> dict[str, str]:
    """The modules of all experiments, by the names of their files."""
    files = [f for pattern in PATTERNS for f in (folder / FOLDER).rglob(pattern)]
    places = [file.relative_to(folder).with_suffix("") for file in files]
    return {place.name.replace("_", "-"): ".".join(place.parts) for place in places}


def select_experiments(
    requests: Sequence[str], reading: Reading | None
) -> dict[str, Experiment]:
    """A mapping from names to the requested experiments.

    A figure's name selects all its panels; `all` selects all that have `reading`.

    Raises:
        UnknownNameError: if there is no experiment with a requested name.
        InvalidInputError: if a requested experiment has no such reading.

    Examples:
        >>> from meanfield.reproduce import select_experiments
        >>> list(select_experiments(["castin2025-fig1b"], "text"))
        ['castin2025-fig1b']
    """
    folder = root()
    modules = _modules(folder)
    figures = sorted(modules)
    single = [request for request in requests if request != "all"]
    panels = [
        _check_name(n, figures) for name in single for n in _panels(name, figures)
    ]
    selection = figures if "all" in requests else panels
    experiments = {name: _experiment(folder, modules[name]) for name in selection}
    mismatches = [
        n for n, e in experiments.items() if reading not in (None, *e.readings)
    ]
    if "all" not in requests and mismatches:
        alternatives = ", ".join(
            f"`{alternative}`" for alternative in experiments[mismatches[0]].readings
        )
        raise InvalidInputError(
            f"`{mismatches[0]}` cannot be reproduced as `{reading}`, "
            f"only as {alternatives}. "
            "Choose one of these, or leave out `--as`."
        )
    return {name: e for name, e in experiments.items() if name not in mismatches}


def _panels(name: str, figures: Sequence[str]) -> list[str]:
    """The panels of the figure `name`, or `name` itself if it is not a figure."""
    panels = [panel for panel in figures if panel[:-1] == name and panel[-1].isalpha()]
    return panels or [name]


def load(name: str) -> Experiment:
    """Loads an experiment by its name.

    Raises:
        UnknownNameError: if there is no such experiment.
        InputFileError: if its file defines no `EXPERIMENT`.

    Examples:
        >>> from meanfield.reproduce import load
        >>> load("castin2025-fig1b").claim[:30]
        'Where A + Aᵀ is negative semid'
    """
    folder = root()
    modules = _modules(folder)
    return _experiment(folder, modules[_check_name(name, sorted(modules))])


def _experiment(folder: Path, name: str) -> Experiment:
    """The experiment that a module in a folder defines."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module = _import_module(name)
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise InputFileError(f"`{module.__file__}` defines no `EXPERIMENT`.")
    return experiment


def _check_name(name: str, figures: Sequence[str]) -> str:
    if name not in figures:
        hint = suggestion(name, list(figures))
        raise UnknownNameError(f"There is no figure `{name}`; {hint}")
    return name


def _import_module(name: str) -> ModuleType:
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
