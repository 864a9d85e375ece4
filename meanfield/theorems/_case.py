"""Settings of a measurement: its size, its seed and its witnesses."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import jax
import numpy as np

from meanfield._typing import PRNGKey

Size = Literal["quick", "full"]
T = TypeVar("T")
Witnesses = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Case:
    """Size, random draws and witnesses of the measurement of one statement.

    Each random draw has a name and its own generator, so that adding a draw never
    changes the others. A statement, its control and its misprint use the same draws.

    Attributes:
        statement: id of the statement.
        size: `quick` takes seconds; `full` uses more draws and steps.
        seed: seed of all random draws.
        witnesses: maps the label of a check to a point. The check is evaluated there,
            and no worst case is searched for.

    Examples:
        >>> from meanfield.theorems import Case
        >>> case = Case("castin2025:eq-2.2")
        >>> case.pick(quick=10, full=1000), case.rng("tokens").normal(size=3).shape
        (10, (3,))
    """

    statement: str
    size: Size = "quick"
    seed: int = 0
    witnesses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def rng(self, name: str) -> np.random.Generator:
        """NumPy generator for the draw called `name`."""
        return np.random.default_rng([self.seed, self._code(name)])

    def key(self, name: str) -> PRNGKey:
        """JAX key for the draw called `name`."""
        return jax.random.fold_in(jax.random.key(self.seed), self._code(name))

    def pick(self, quick: T, full: T) -> T:
        """Returns `quick` or `full`, depending on the size of the case."""
        return quick if self.size == "quick" else full

    def _code(self, name: str) -> int:
        return zlib.crc32(f"{self.statement}/{name}".encode())
