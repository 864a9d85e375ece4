"""How an energy changes from frame to frame along its own gradient flow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from meanfield._display import number

Energies = Float[np.ndarray, "*members frames"]
Energy = Float[np.ndarray, "*members"]


@dataclass(frozen=True)
class EnergyChange:
    """How an energy changed from frame to frame.

    Attributes:
        first: the energy at the first frame, for each member of a family.
        last: the energy at the last frame.
        rise: the largest increase from frame to frame; negative if it always fell.

    Examples:
        >>> from meanfield import runs, spec
        >>> keys = {"measure": "gaussian", "flow_of": "entropy", "t": 1.0, "frames": 3}
        >>> change = runs.execute(spec.parse(keys)).energy_change
        >>> bool(change.last < change.first), change.is_decreasing
        (True, True)
    """

    first: Energy
    last: Energy
    rise: Energy

    @classmethod
    def from_values(cls, values: Energies) -> "EnergyChange":
        """The change of an energy, from its values at all frames so far."""
        first = np.asarray(values[..., 0])
        change = cls(first, first, np.full(first.shape, -np.inf))
        return change.add_frames(values[..., 1:])

    def add_frames(self, values: Energies) -> "EnergyChange":
        """The change after further frames."""
        if not values.shape[-1]:
            return self
        with np.errstate(invalid="ignore"):  # no warning for inf - inf
            steps = np.diff(np.concatenate([self.last[..., None], values], axis=-1))
        rise = np.asarray(np.maximum(self.rise, np.max(steps, axis=-1)))
        return EnergyChange(self.first, np.asarray(values[..., -1]), rise)

    @property
    def is_known(self) -> bool:
        """Whether the energy is finite at the first and last frame of all members."""
        return bool(np.all(np.isfinite(self.first) & np.isfinite(self.last)))

    @property
    def is_decreasing(self) -> bool:
        """Whether the energy never rose by more than its numerical error."""
        if not self.is_known:
            return False
        size = np.maximum(np.abs(self.first), np.abs(self.last))
        tolerance = np.finfo(self.first.dtype).eps ** 0.6 * size
        return bool(np.all(self.rise <= tolerance))

    @property
    def text(self) -> str:
        """The first and last energy, and whether it fell at each frame, in words."""
        first, last = (float(np.ravel(part)[0]) for part in (self.first, self.last))
        if not self.is_known:
            return "unknown: the energy is not finite at the first or the last frame"
        ends = f"from {number(first)} to {number(last)}"
        if self.is_decreasing:
            return f"{ends}, lower at each frame"
        return f"{ends}; between frames it rose by up to {np.max(self.rise):.2g}"

    def as_json(self) -> dict[str, Any]:
        """The change as JSON values."""
        numbers = {"first": self.first, "last": self.last, "rise": self.rise}
        values = {name: value.tolist() for name, value in numbers.items()}
        return {**values, "is_decreasing": self.is_decreasing}
