"""TOML files of specs, and the paths in them."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meanfield._reading import path_of, read_text
from meanfield.errors import InputFileError

from ._model import KEYS
from .attention import context_of, files_in, options_of, replace_files

BEGIN = "`meanfield init` writes a file to begin with."


def read_toml(path: Path) -> dict[str, Any]:
    """The unchecked values of a TOML file, with paths resolved against its folder.

    Raises:
        InputFileError: if the file is missing, unreadable or not TOML.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import read_toml
        >>> _ = Path("run.toml").write_text("A = -1.0")
        >>> read_toml(Path("run.toml"))
        {'A': -1.0}
    """
    text = read_text(path)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise InputFileError(
            f"`{path}` is not valid TOML: it is nested too deeply. {BEGIN}"
        ) from None
    except ValueError as error:
        raise InputFileError(f"`{path}` is not valid TOML: {error}. {BEGIN}") from None
    return resolve_paths(values, path.parent)


def resolve_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`values` with absolute paths; relative ones are resolved against `folder`.

    Each `@FILE` is a path, as are the run `source`, a `context` that is a run, and a
    `model` that is not a registered name.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import resolve_paths
        >>> resolve_paths({"A": "@matrix.npy", "d": 2}, Path("/data"))
        {'A': '@/data/matrix.npy', 'd': 2}
    """
    return _rename_files(values, folder, lambda name: _absolute(name, folder))


def relative_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`values` with paths inside `folder` made relative to it; others are unchanged.

    This is the inverse of `resolve_paths`, for a TOML file in that folder.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import relative_paths
        >>> relative_paths({"A": "@/data/matrix.npy", "init": "@/x.npy"}, Path("/data"))
        {'A': '@matrix.npy', 'init': '@/x.npy'}
    """
    return _rename_files(values, folder, lambda name: relative_name(name, folder))


def relative_name(name: str, folder: Path) -> str:
    """A file name relative to `folder` if it lies there, otherwise unchanged.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import relative_name
        >>> [relative_name(x, Path("/data")) for x in ("/data/mine.py", "/mine.py")]
        ['mine.py', '/mine.py']
    """
    path, root = Path(name), folder.absolute()
    return str(path.relative_to(root)) if path.is_relative_to(root) else name


def _rename_files(
    values: Mapping[str, Any], folder: Path, rename: Callable[[str], str]
) -> dict[str, Any]:
    """`values` with `rename` applied to all paths, including a `model` in `folder`."""
    new_values = {k: _rename_value(k, v, folder, rename) for k, v in values.items()}
    for key, row in KEYS.items():
        if row.holds == "table" and isinstance(new_values.get(key), list):
            new_values[key] = [
                _rename_files(item, folder, rename) if isinstance(item, dict) else item
                for item in new_values[key]
            ]
    return new_values


def paths_in(key: str, value: Any) -> list[str]:
    """Paths of the files that are named, as `@FILE`, in the value of a key.

    Examples:
        >>> from meanfield.spec import paths_in
        >>> paths_in("A", "@matrix.npy")
        ['matrix.npy']
    """
    if key not in KEYS or not KEYS[key].files:
        return []
    if KEYS[key].holds == "options":
        return list(files_in(options_of(value)).values())
    parts = value if isinstance(value, list) else [value]
    return [p[1:] for p in parts if isinstance(p, str) and p.startswith("@")]


def _rename_value(
    key: str, value: Any, folder: Path, rename: Callable[[str], str]
) -> Any:
    if key in KEYS and KEYS[key].holds == "options" and isinstance(value, dict):
        return replace_files(value, lambda path: f"@{rename(path)}")
    if isinstance(value, list) and key in KEYS and KEYS[key].files:  # one file per head
        name = lambda item: _rename_value(key, item, folder, rename)
        return [name(item) if isinstance(item, str) else item for item in value]
    if not isinstance(value, str):
        return value
    if key in KEYS and KEYS[key].files and value.startswith("@"):
        return f"@{rename(value[1:])}"
    is_path = key == "source" or (key == "model" and _is_folder(value, folder))
    is_path |= key == "context" and context_of(value).run is not None
    return rename(value) if is_path else value


def _is_folder(model: str, folder: Path) -> bool:
    """Whether `model` is a path to a folder instead of a registered name."""
    path = path_of(model)
    return path.is_absolute() or (folder / path).is_dir()


def _absolute(name: str, folder: Path) -> str:
    return str((folder / path_of(name)).absolute())
