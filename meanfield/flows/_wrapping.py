"""A step-size controller around another one."""

from collections.abc import Callable
from typing import TypeVar, cast

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield._typing import Scalar

StateT = TypeVar("StateT")


class AbstractWrapping(diffrax.AbstractAdaptiveStepSizeController[StateT, None]):
    """Passes on what diffrax reads of a controller; implicit solvers do, too."""

    controller: eqx.AbstractVar[diffrax.AbstractAdaptiveStepSizeController]

    # diffrax declares these as fields; like its own wrappers, we pass them on.
    @property
    @override
    def rtol(self) -> Scalar:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tolerance of the wrapped controller."""
        return cast(Scalar, self.controller.rtol)

    @property
    @override
    def atol(self) -> Scalar:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Likewise."""
        return cast(Scalar, self.controller.atol)

    @property
    @override
    def norm(self) -> Callable:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Likewise."""
        return self.controller.norm

    @override
    def wrap(self, direction: int | Array | np.ndarray) -> "AbstractWrapping[StateT]":
        wrapped = self.controller.wrap(direction)
        return eqx.tree_at(lambda own: own.controller, self, wrapped)
