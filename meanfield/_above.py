"""What upper layers do with objects of lower ones, which must not import them.

A lower module asks for it by name. `meanfield/__init__.py`, which stands beside the
layers, says where it is; it is loaded when it is first asked for.
"""

from importlib import import_module
from typing import Any

from ._registry import Registry

views: Registry[str] = Registry("view")
"""`module:name` of what makes each view."""


def view(name: str, *things: object) -> Any:
    """What an upper layer makes of something: its dataset, its panels."""
    module, maker = views[name].split(":")
    return getattr(import_module(module), maker)(*things)
