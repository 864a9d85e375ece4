"""How programs of ours are compiled, in one place."""

from collections.abc import Callable
from typing import Any

import equinox as eqx


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function of arrays and modules."""
    return eqx.filter_jit(function)
