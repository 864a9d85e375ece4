"""Functions of upper layers that lower layers call without importing them.

A lower module calls such a function by its name in this registry. The functions are
registered in `meanfield/__init__.py` and import the upper layer when they are called.
"""

from collections.abc import Callable
from typing import Any

from ._registry import Registry

views: Registry[Callable[..., Any]] = Registry("view")
"""Registered functions, each of which creates a view."""


def view(name: str, *things: object) -> Any:
    """Calls the registered function `name`, such as `dataset` for a trajectory."""
    return views[name](*things)
