"""Lazy loading of a package's names, at their first use (PEP 562)."""

import ast
import builtins
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, cast


class LazyExports(NamedTuple):
    """The `__getattr__`, `__dir__` and `__all__` of a package."""

    getattr: Callable[[str], object]
    dir: Callable[[], list[str]]
    public: list[str]


def lazy_exports(package: str) -> LazyExports:
    """`__getattr__`, `__dir__` and `__all__` that load a package's names at first use.

    The names are those that the package's source imports below `if TYPE_CHECKING`, in
    the form `from ._run import run as run`; type checkers read the same lines. Imports
    without `as` are for annotations only. `__all__` omits names that would shadow a
    Python builtin.

    Args:
        package: the `__name__` of the package.
    """
    modules = _source_modules(package)

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name], package), name)

    names = sorted(modules)
    public = [name for name in names if not hasattr(builtins, name)]
    return LazyExports(load, lambda: names, public)


def _source_modules(package: str) -> dict[str, str]:
    """Relative name of the module from which each re-exported name is imported."""
    loader = cast(Any, sys.modules[package].__spec__).loader
    imports = ast.walk(ast.parse(loader.get_source(package)))
    return {
        alias.name: "." * node.level + (node.module or "")
        for node in imports
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
