"""TOML files, and where the files are that a spec names."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meanfield._reading import read_text
from meanfield.errors import InputFileError

from ._model import KEYS
from .attention import context_of, files_in, options_of, with_files

BEGIN = "`meanfield init` writes a file to begin with."


def read_toml(path: Path) -> dict[str, Any]:
    """The values in a TOML file, unchecked, its file names located in its folder.

    Raises:
        InputFileError: if it is missing, unreadable or no TOML.

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
            f"`{path}` is no TOML: it is nested too deep. {BEGIN}"
        ) from None
    except ValueError as error:
        raise InputFileError(
            f"`{path}` is no TOML to be read: {error}. {BEGIN}"
        ) from None
    return located(values, path.parent)


def located(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`values` with absolute paths: those that are relative start from `folder`.

    These are the values `@FILE` of matrices, of `init` and of `text`, the run `source`,
    one that is the `context`, and a `model` that is a folder there.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import located
        >>> located({"A": "@matrix.npy", "d": 2}, Path("/data"))
        {'A': '@/data/matrix.npy', 'd': 2}
    """
    found = {key: _located(key, value, folder) for key, value in values.items()}
    for name, row in KEYS.items():
        if row.holds == "table" and isinstance(found.get(name), list):
            found[name] = [
                located(item, folder) if isinstance(item, dict) else item
                for item in found[name]
            ]
    return found


def paths_in(key: str, value: Any) -> list[str]:
    """The files that a value of a key names, as `@FILE`.

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


def _located(key: str, value: Any, folder: Path) -> Any:
    if key in KEYS and KEYS[key].holds == "options" and isinstance(value, dict):
        return with_files(value, lambda path: f"@{_absolute(path, folder)}")
    if isinstance(value, list) and key in KEYS and KEYS[key].files:  # one a head
        return [_located(key, v, folder) if isinstance(v, str) else v for v in value]
    if not isinstance(value, str):
        return value
    if key in KEYS and KEYS[key].files and value.startswith("@"):
        return f"@{_absolute(value[1:], folder)}"
    is_path = key == "source" or (key == "model" and (folder / value).is_dir())
    is_path |= key == "context" and context_of(value).run is not None
    return _absolute(value, folder) if is_path else value


def _absolute(name: str, folder: Path) -> str:
    try:
        return str((folder / Path(name).expanduser()).absolute())
    except RuntimeError as error:  # a `~` of nobody that is known
        raise InputFileError(f"`{name}` has no place: {error}") from None
