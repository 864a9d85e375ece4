"""Layers and heads of a run, by the numbers that its keys give them: from zero."""

from itertools import takewhile
from typing import NamedTuple

import numpy as np
import xarray as xr

from meanfield.spec import RunSpec

from .described import spec_of


class Passed(NamedTuple):
    """A layer that a flow passes.

    Attributes:
        start: the time from which it moves the tokens; the first one does before, too.
        number: counted from zero, of a model in the model.
    """

    start: float
    number: int


def layers_passed(dataset: xr.Dataset) -> list[Passed]:
    """The layers that move a run before its last time; none if it has no layers.

    Those of a model take one unit of time each, and the last one acts for ever.
    """
    spec = spec_of(dataset)
    if spec is None:
        return []
    last = float(dataset["time"].values[-1])
    layers = list(takewhile(lambda layer: layer.start < last, _layers(spec, dataset)))
    return layers or _layers(spec, dataset)[:1]


def _layers(spec: RunSpec, dataset: xr.Dataset) -> list[Passed]:
    if spec.model is not None:
        count = int(np.ceil(dataset["time"].values[-1]))
        numbers = spec.model_layers or range(int(dataset.attrs.get("n_layers", count)))
        return [Passed(float(start), number) for start, number in enumerate(numbers)]
    if spec.depth == "interpolated":
        return []  # parameters are between two of them
    return [Passed(layer.t, number) for number, layer in enumerate(spec.layers)]


def head_numbers(dataset: xr.Dataset, count: int) -> list[int]:
    """What `count` heads are called: of a model what the model calls them."""
    spec = spec_of(dataset)
    chosen = None if spec is None else spec.model_heads
    return list(chosen or range(count))[:count]
