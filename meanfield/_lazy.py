"""Names of a package that are loaded when they are first asked for (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple


class Lazy(NamedTuple):
    """The two functions of a package that Python asks for its names."""

    getattr: Callable[[str], object]
    dir: Callable[[], list[str]]


def lazy(package: str, homes: Mapping[str, str]) -> Lazy:
    """`__getattr__` and `__dir__` of a package whose modules are loaded at first use.

    Args:
        package: its `__name__`.
        homes: the module of each name, relative to the package: `._run`.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    return Lazy(load, lambda: sorted(homes))
