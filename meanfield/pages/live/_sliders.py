"""Which axes of a sweep become sliders of a page."""

from collections.abc import Sequence

from meanfield.errors import UnsupportedError
from meanfield.spec import KEYS, Axis

_NUMBERS = frozenset("A V epsilon noise t cov".split())  # noqa: SIM905


def check_axes(axes: Sequence[Axis]) -> None:
    """Checks that a page can vary what these axes vary.

    Raises:
        UnsupportedError: naming the first axis that it cannot.
    """
    for axis in axes:
        number = axis.key in _NUMBERS and axis.is_numeric and axis.option is None
        of_start = axis.key == "cov" and axis.entry is not None
        if axis.key != "attention" and (not number or of_start):
            names = ", ".join(f"`{name}`" for name in KEYS if name in _NUMBERS)
            raise UnsupportedError(
                f"`{axis.name}` is no slider of a page, which has `attention` and "
                f"numbers for {names}: leave this axis out of the sweep."
            )
