"""The layers of a spec, and its drifts: affine maps or perceptrons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from meanfield.dynamics import (
    AbstractDynamics,
    Drift,
    Interpolated,
    Layers,
    Perceptron,
    stack_trees,
)
from meanfield.errors import InvalidInputError
from meanfield.spec import Matrix

from ._parameters import Draw, columns, entries, matrix, square, vector

Values = Mapping[str, Matrix]
OfLayers = Sequence[Drift | Perceptron | None]
_ROWS, _VECTORS = ("M", "W1"), ("b", "b2")  # keys with d columns or d entries


@dataclass(frozen=True)
class Depth:
    """The schedule of layers in time.

    Attributes:
        starts: the times at which layers begin.
        end: the final time of the flow.
        is_linear: whether parameters are interpolated linearly between these times.
    """

    starts: tuple[float, ...]
    end: float
    is_linear: bool

    def dynamics(self, members: Sequence[AbstractDynamics]) -> AbstractDynamics:
        """Dynamics of all layers, piecewise constant or linearly interpolated."""
        if self.is_linear:
            return Interpolated(jnp.asarray(self.starts), stack_trees(members))
        end = max(self.end, self.starts[-1] + 1.0)
        return Layers(jnp.asarray([*self.starts, end]), stack_trees(members))


def drifts(
    run_drift: Values | None,
    values_of_layers: Sequence[Values | None],
    depth: Depth | None,
    *,
    d: int,
    draw: Draw,
) -> list[AbstractDynamics]:
    """The drifts that are added to attentions, over all layers.

    If some layers have affine drifts and others perceptrons, all layers get both, with
    zero parameters for the one that a layer lacks.

    Args:
        run_drift: the drift of the run, which is the default for each layer.
        values_of_layers: the layers' own drifts, or `None`.
        depth: the schedule of the layers, if there are any.
        d: the dimension.
        draw: the random keys of the draw, for random matrices.
    """
    if depth is None or not any(values_of_layers):
        return [] if run_drift is None else [_drift(run_drift, d, draw, "")]
    values_or_none = [run_drift if v is None else v for v in values_of_layers]
    drifts_of_layers = [
        None if values is None else _drift(values, d, draw, f"layers.{i}.")
        for i, values in enumerate(values_or_none)
    ]
    kinds = _affine(drifts_of_layers, d), _perceptrons(drifts_of_layers, d)
    return [depth.dynamics(members) for members in kinds if members]


def drift_sizes(drift: Values | None) -> dict[str, int]:
    """The dimension that each parameter of a drift fixes, by name.

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
    """The affine drift of each layer; empty if no layer has one."""
    if not any(isinstance(drift, Drift) for drift in drifts_of_layers):
        return []
    zero = Drift(jnp.zeros((d, d)))
    return [drift if isinstance(drift, Drift) else zero for drift in drifts_of_layers]


def _perceptrons(drifts_of_layers: OfLayers, d: int) -> list[Perceptron]:
    """The perceptron of each layer, padded to one width; empty if no layer has one."""
    perceptrons = [drift for drift in drifts_of_layers if isinstance(drift, Perceptron)]
    if not perceptrons:
        return []
    width = max(len(drift.bias) for drift in perceptrons)
    zero = Perceptron(jnp.zeros((width, d)), jnp.zeros((d, width)))
    return [
        _pad_width(drift, width) if isinstance(drift, Perceptron) else zero
        for drift in drifts_of_layers
    ]


def _pad_width(drift: Perceptron, width: int) -> Perceptron:
    """The perceptron, padded with zero units to `width`."""
    more = width - len(drift.bias)
    pad = lambda array, *axes: jnp.pad(array, [(0, more * axis) for axis in axes])
    return Perceptron(
        pad(drift.inner, 1, 0),
        pad(drift.outer, 0, 1),
        bias=pad(drift.bias, 1),
        offset=drift.offset,
    )
