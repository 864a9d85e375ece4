"""Names of a package that are loaded when they are first asked for (PEP 562)."""

import ast
import builtins
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, cast


class Lazy(NamedTuple):
    """What Python asks a package for its names."""

    getattr: Callable[[str], object]
    dir: Callable[[], list[str]]
    public: list[str]


def lazy(package: str) -> Lazy:
    """`__getattr__`, `__dir__`, `__all__` of a package that loads names at first use.

    Its source says which, once and where type checkers read it: in the imports below
    `if TYPE_CHECKING`, as `from ._run import run as run`. One without `as` is for
    annotations alone. A star import leaves out what would hide a name of Python.

    Args:
        package: its `__name__`.
    """
    homes = _homes(package)

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    names = sorted(homes)
    public = [name for name in names if not hasattr(builtins, name)]
    return Lazy(load, lambda: names, public)


def _homes(package: str) -> dict[str, str]:
    """The module of each name that a package gives on, relative to the package."""
    loader = cast(Any, sys.modules[package].__spec__).loader
    imports = ast.walk(ast.parse(loader.get_source(package)))
    return {
        alias.name: "." * node.level + (node.module or "")
        for node in imports
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
