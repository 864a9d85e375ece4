"""TOML files, and where the files are that a spec names."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meanfield._reading import path_of, read_text
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
    return _renamed(values, folder, lambda name: _absolute(name, folder))


def beside(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`values` with paths relative to `folder` if they lie there, else as they are.

    In a TOML file in that folder they mean the same; see `located`.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import beside
        >>> beside({"A": "@/data/matrix.npy", "init": "@/x.npy"}, Path("/data"))
        {'A': '@matrix.npy', 'init': '@/x.npy'}
    """
    return _renamed(values, folder, lambda name: name_in(name, folder))


def name_in(name: str, folder: Path) -> str:
    """A file name relative to `folder` if it lies there, else as it is.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.spec import name_in
        >>> name_in("/data/mine.py", Path("/data")), name_in("/mine.py", Path("/data"))
        ('mine.py', '/mine.py')
    """
    path, root = Path(name), folder.absolute()
    return str(path.relative_to(root)) if path.is_relative_to(root) else name


def _renamed(
    values: Mapping[str, Any], folder: Path, rename: Callable[[str], str]
) -> dict[str, Any]:
    """`values` with other names for their files; `folder` may hold a model."""
    named = {key: _named(key, value, folder, rename) for key, value in values.items()}
    for key, row in KEYS.items():
        if row.holds == "table" and isinstance(named.get(key), list):
            named[key] = [
                _renamed(item, folder, rename) if isinstance(item, dict) else item
                for item in named[key]
            ]
    return named


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


def _named(key: str, value: Any, folder: Path, rename: Callable[[str], str]) -> Any:
    if key in KEYS and KEYS[key].holds == "options" and isinstance(value, dict):
        return with_files(value, lambda path: f"@{rename(path)}")
    if isinstance(value, list) and key in KEYS and KEYS[key].files:  # one a head
        name = lambda item: _named(key, item, folder, rename)
        return [name(item) if isinstance(item, str) else item for item in value]
    if not isinstance(value, str):
        return value
    if key in KEYS and KEYS[key].files and value.startswith("@"):
        return f"@{rename(value[1:])}"
    is_path = key == "source" or (key == "model" and _is_folder(value, folder))
    is_path |= key == "context" and context_of(value).run is not None
    return rename(value) if is_path else value


def _is_folder(model: str, folder: Path) -> bool:
    """Whether a model is no known name, but a folder."""
    path = path_of(model)
    return path.is_absolute() or (folder / path).is_dir()


def _absolute(name: str, folder: Path) -> str:
    return str((folder / path_of(name)).absolute())
