"""What upper layers do with objects of lower ones, which must not import them.

A lower module asks for it by name. `meanfield/__init__.py`, which stands beside the
layers, has a function for each name, which imports the upper layer when it is called.
"""

from collections.abc import Callable
from typing import Any

from ._registry import Registry

views: Registry[Callable[..., Any]] = Registry("view")
"""What makes each view."""


def view(name: str, *things: object) -> Any:
    """What an upper layer makes of something: its dataset, its panels."""
    return views[name](*things)
