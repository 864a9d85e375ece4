"""The keys and sweep axes that a live page supports; this module needs no JAX."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.spec import HEADWISE_KEYS, KEYS, Axis, RunSpec

_GROUPS = {
    "Grid": "it moves tokens and Gaussians, not densities",
    "Transformer": "it has no transformer",
}
_REASONS = {
    key: row.no_page or _GROUPS.get(str(row.group)) for key, row in KEYS.items()
}

UNSUPPORTED_KEYS = {key: reason for key, reason in _REASONS.items() if reason}
"""The keys that have no effect on a page, with the reasons."""

HIDDEN_KEYS = frozenset({*UNSUPPORTED_KEYS, "precision", "options"})
"""The keys that the help of a page leaves out: a page always computes in double
precision, and only attentions of plugins have options."""

SAMPLED_MEASURES = ("points",)  # kinds of measures with a random initial state
_NUMBERS = frozenset("A V epsilon noise t cov".split())  # noqa: SIM905


def check_keys(keys: Mapping[str, Any], name: Callable[[str], str] = str) -> None:
    """Check that each given key has an effect on a page; `name` spells it in messages.

    Raises:
        InvalidInputError: naming the first that has none, and what a page does instead.
    """
    for key, reason in UNSUPPORTED_KEYS.items():
        if keys.get(key) is not None and keys[key] is not False:
            raise InvalidInputError(
                f"`{name(key)}` has no effect on a page: {reason}. Leave it out, or "
                "use `simulate`."
            )


def check_axes(axes: Sequence[Axis], spec: RunSpec) -> None:
    """Check that each axis of a sweep can become a slider of a live page.

    A slider for `cov` needs a Gaussian: sampled tokens would be scaled about the mean
    of their law, and a page does not know this mean. A slider for a matrix needs a
    single head without scaling, so that the page and the spec have the same matrix.

    Raises:
        UnsupportedError: for the first axis that cannot be a slider.
    """
    for axis in axes:
        number = axis.key in _NUMBERS and axis.is_numeric and axis.option is None
        is_unscalable_cov = axis.key == "cov" and (
            axis.entry is not None
            or spec.measure in SAMPLED_MEASURES
            or 0 in axis.values
        )
        is_per_head = axis.key in HEADWISE_KEYS and (
            spec.heads > 1 or spec.scale != "none"
        )
        if axis.key != "attention" and (not number or is_unscalable_cov or is_per_head):
            names = ", ".join(f"`{name}`" for name in KEYS if name in _NUMBERS)
            raise UnsupportedError(
                "A page has sliders only for `attention` and for numeric values of "
                f"{names}. `A` and `V` need a single unscaled head, and `cov` needs a "
                f"Gaussian. Leave the axis `{axis.name}` out of the sweep."
            )
