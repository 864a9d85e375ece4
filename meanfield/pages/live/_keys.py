"""Which keys and axes a live page has use for, as their rows say; no JAX."""

from collections.abc import Sequence

from meanfield.errors import UnsupportedError
from meanfield.spec import KEYS, OF_HEADS, Axis, RunSpec

_GROUPS = {
    "Grid": "it moves tokens and Gaussians, no densities",
    "Transformer": "it has no transformer",
}
_REASONS = {
    key: row.no_page or _GROUPS.get(str(row.group)) for key, row in KEYS.items()
}

REFUSED = {key: reason for key, reason in _REASONS.items() if reason}
"""The keys that mean nothing to a page, and what it does instead."""

UNLISTED = frozenset({*REFUSED, "precision", "options"})
"""The keys that its help leaves out: any precision is double there, and of the
attentions that it knows those of a plugin alone have options."""

DRAWN = ("points",)  # measures whose start is drawn
_NUMBERS = frozenset("A V epsilon noise t cov".split())  # noqa: SIM905


def check_axes(axes: Sequence[Axis], spec: RunSpec) -> None:
    """Checks that a page can vary what these axes vary, as the cells of a sweep do.

    The covariance of drawn tokens scales them about the mean of their law, which a
    page does not know; and a matrix that a spec cuts into heads, or scales, is not the
    one of each head.

    Raises:
        UnsupportedError: naming the first axis that it cannot.
    """
    for axis in axes:
        number = axis.key in _NUMBERS and axis.is_numeric and axis.option is None
        of_start = axis.key == "cov" and (
            axis.entry is not None or spec.measure in DRAWN or 0 in axis.values
        )
        of_parts = axis.key in OF_HEADS and (spec.heads > 1 or spec.scale != "none")
        if axis.key != "attention" and (not number or of_start or of_parts):
            names = ", ".join(f"`{name}`" for name in KEYS if name in _NUMBERS)
            raise UnsupportedError(
                f"`{axis.name}` is no slider of a page, which has `attention` and "
                f"numbers for {names} (of one head, unscaled; `cov` of a Gaussian): "
                "leave this axis out of the sweep."
            )
