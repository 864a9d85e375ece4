"""The circumstances of a measurement: its size, its seed, its witnesses."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import jax
import numpy as np

from meanfield._typing import PRNGKey

Size = Literal["quick", "full"]
T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """What a statement is measured under.

    A draw is named, so that a new one never shifts an old one; a statement, its control
    and its printed form see the same draws.

    Attributes:
        statement: its id.
        size: `quick` in seconds; `full` the same with more of everything.
        seed: of every draw.
        witnesses: by label of a check, where to measure it instead of searching.

    Examples:
        >>> from meanfield.theorems import Case
        >>> case = Case("castin2025:eq-2.2")
        >>> case.pick(quick=10, full=1000), case.rng("tokens").normal(size=3).shape
        (10, (3,))
    """

    statement: str
    size: Size = "quick"
    seed: int = 0
    witnesses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def rng(self, name: str) -> np.random.Generator:
        """NumPy's generator for the draw of this name."""
        return np.random.default_rng([self.seed, self._code(name)])

    def key(self, name: str) -> PRNGKey:
        """JAX's key for the draw of this name."""
        return jax.random.fold_in(jax.random.key(self.seed), self._code(name))

    def pick(self, quick: T, full: T) -> T:
        """One of two, by size."""
        return quick if self.size == "quick" else full

    def _code(self, name: str) -> int:
        return zlib.crc32(f"{self.statement}/{name}".encode())
