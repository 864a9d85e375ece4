"""Whether an energy falls along its own gradient flow, from frame to frame."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from meanfield._display import number

Energies = Float[np.ndarray, "*members frames"]
Energy = Float[np.ndarray, "*members"]


@dataclass(frozen=True)
class Fall:
    """How an energy changed from frame to frame.

    Attributes:
        first: what it was at the first frame, of each member of a family.
        last: what it was at the last.
        rise: the most that it rose between two frames; negative if it always fell.

    Examples:
        >>> from meanfield import runs, spec
        >>> keys = {"measure": "gaussian", "flow_of": "entropy", "t": 1.0, "frames": 3}
        >>> fall = runs.execute(spec.parse(keys)).fall
        >>> bool(fall.last < fall.first), bool(fall.decreased)
        (True, True)
    """

    first: Energy
    last: Energy
    rise: Energy

    @classmethod
    def of(cls, values: Energies) -> "Fall":
        """Of an energy at all frames."""
        first = np.asarray(values[..., 0])
        return cls(first, first, np.full(first.shape, -np.inf)).after(values[..., 1:])

    def after(self, values: Energies) -> "Fall":
        """What it is once there are further frames."""
        if not values.shape[-1]:
            return self
        with np.errstate(invalid="ignore"):  # an infinite energy has no steps
            steps = np.diff(np.concatenate([self.last[..., None], values], axis=-1))
        rise = np.asarray(np.maximum(self.rise, np.max(steps, axis=-1)))
        return Fall(self.first, np.asarray(values[..., -1]), rise)

    @property
    def is_known(self) -> bool:
        """Whether it is a number at the first frame and the last, in all members."""
        return bool(np.all(np.isfinite(self.first) & np.isfinite(self.last)))

    @property
    def decreased(self) -> bool:
        """Whether it never rose, by more than steps leave undecided, in any member."""
        if not self.is_known:
            return False
        size = np.maximum(np.abs(self.first), np.abs(self.last))
        undecided = np.finfo(self.first.dtype).eps ** 0.6 * size
        return bool(np.all(self.rise <= undecided))

    @property
    def text(self) -> str:
        """From where to where it fell, and whether it did all the way, in words."""
        first, last = (float(np.ravel(part)[0]) for part in (self.first, self.last))
        if not self.is_known:
            return "not known: the energy is not finite at the first frame or the last"
        ends = f"from {number(first)} to {number(last)}"
        if self.decreased:
            return f"{ends}, lower at each frame"
        return f"{ends}; between frames it rose by up to {np.max(self.rise):.2g}"

    def as_json(self) -> dict[str, Any]:
        """The fall as JSON values."""
        numbers = {"first": self.first, "last": self.last, "rise": self.rise}
        values = {name: value.tolist() for name, value in numbers.items()}
        return {**values, "decreased": self.decreased}
