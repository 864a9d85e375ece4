"""Step-size controllers that follow a rule, and estimate no error."""

from collections.abc import Callable
from typing import TypeVar

import diffrax
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield.linalg import length

StateT = TypeVar("StateT")


class AbstractRuledSteps(diffrax.AbstractAdaptiveStepSizeController[StateT, None]):
    """Steps by a rule: no error is estimated, and any tolerance would do."""

    @property
    @override
    def rtol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """None is asked for."""
        return 0.0

    @property
    @override
    def atol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Likewise."""
        return 0.0

    @property
    @override
    def norm(self) -> Callable:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Likewise."""
        return length

    @override
    def wrap(self, direction: int | Array | np.ndarray) -> "AbstractRuledSteps[StateT]":
        return self
