"""Layers of a spec, and its drift: affine, or a perceptron, by layers too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from meanfield.dynamics import (
    AbstractDynamics,
    Drift,
    Interpolated,
    Layers,
    Perceptron,
    stacked,
)
from meanfield.errors import InvalidInputError
from meanfield.spec import Matrix

from ._parameters import (
    Draw,
    columns,
    entries,
    matrix,
    square,
    vector,
)

Values = Mapping[str, Matrix]
OfLayers = Sequence[Drift | Perceptron | None]
_ROWS, _VECTORS = ("M", "W1"), ("b", "b2")  # that act on a token, or are added to one


@dataclass(frozen=True)
class Depth:
    """When each layer begins to act, and what acts between these times.

    Attributes:
        starts: the times at which layers begin.
        end: of the flow; the last acts for ever.
        is_linear: whether parameters are linear between the times.
    """

    starts: tuple[float, ...]
    end: float
    is_linear: bool

    def dynamics(self, members: Sequence[AbstractDynamics]) -> AbstractDynamics:
        """One dynamics that is each of these in its layer, or linear between them."""
        if self.is_linear:
            return Interpolated(jnp.asarray(self.starts), stacked(members))
        end = max(self.end, self.starts[-1] + 1.0)
        return Layers(jnp.asarray([*self.starts, end]), stacked(members))


def drifts(
    shared: Values | None,
    values_of_layers: Sequence[Values | None],
    depth: Depth | None,
    *,
    d: int,
    draw: Draw,
) -> list[AbstractDynamics]:
    """What is added to attentions: nothing, a drift, or one for each layer.

    Layers may have affine drifts and perceptrons in turn: then both are added in all
    of them, the one that a layer has not with parameters of zero.

    Args:
        shared: the drift of the run, which layers take that have none of their own.
        values_of_layers: their own.
        depth: that of the layers, if there are any.
        d: the dimension.
        draw: for matrices that are drawn.
    """
    if depth is None or not any(values_of_layers):
        return [] if shared is None else [_drift(shared, d, draw, "")]
    values_or_none = [
        shared if values is None else values for values in values_of_layers
    ]
    drifts_of_layers = [
        None if values is None else _drift(values, d, draw, f"layers.{i}.")
        for i, values in enumerate(values_or_none)
    ]
    kinds = _affine(drifts_of_layers, d), _wide(drifts_of_layers, d)
    return [depth.dynamics(members) for members in kinds if members]


def acting_on(drift: Values | None) -> dict[str, int]:
    """The dimension that the parts of a drift fix, by their names.

    Raises:
        InputFileError: if a file cannot be read.
    """
    values = drift or {}
    sizes = {f"columns of drift.{name}": columns(values.get(name)) for name in _ROWS}
    sizes |= {f"drift.{name}": entries(values.get(name)) for name in _VECTORS}
    return {name: size for name, size in sizes.items() if size is not None}


def _drift(values: Values, d: int, draw: Draw, prefix: str) -> Drift | Perceptron:
    name = f"{prefix}drift."
    if "W1" not in values:
        M = square(f"{name}M", values.get("M", 0.0), d, draw)
        return Drift(M, vector(f"{name}b", values.get("b", 0.0), d))
    inner = matrix(f"{name}W1", values["W1"], (d, d), draw)
    width = len(inner)
    outer = matrix(f"{name}W2", values["W2"], (d, width), draw)
    if len(outer) != d:
        raise InvalidInputError(
            f"`{name}W2` must be a {d} × {width} matrix; got shape {outer.shape}."
        )
    bias = vector(f"{name}b1", values.get("b1", 0.0), width)
    offset = vector(f"{name}b2", values.get("b2", 0.0), d)
    return Perceptron(inner, outer, bias=bias, offset=offset)


def _affine(drifts_of_layers: OfLayers, d: int) -> list[Drift]:
    """The affine drift of each layer; none if no layer has one."""
    if not any(isinstance(drift, Drift) for drift in drifts_of_layers):
        return []
    none = Drift(jnp.zeros((d, d)))
    return [drift if isinstance(drift, Drift) else none for drift in drifts_of_layers]


def _wide(drifts_of_layers: OfLayers, d: int) -> list[Perceptron]:
    """The perceptron of each layer, as wide as the widest; none if no layer has one."""
    perceptrons = [drift for drift in drifts_of_layers if isinstance(drift, Perceptron)]
    if not perceptrons:
        return []
    width = max(len(drift.bias) for drift in perceptrons)
    none = Perceptron(jnp.zeros((width, d)), jnp.zeros((d, width)))
    return [
        _widened(drift, width) if isinstance(drift, Perceptron) else none
        for drift in drifts_of_layers
    ]


def _widened(drift: Perceptron, width: int) -> Perceptron:
    """The same velocity, with units that do nothing."""
    more = width - len(drift.bias)
    pad = lambda array, *axes: jnp.pad(
        array, [(0, more if axis else 0) for axis in axes]
    )
    return Perceptron(
        pad(drift.inner, 1, 0),
        pad(drift.outer, 0, 1),
        bias=pad(drift.bias, 1),
        offset=drift.offset,
    )
