"""Layers and heads of a run, numbered from zero as in its spec."""

from itertools import takewhile
from typing import NamedTuple

import numpy as np
import xarray as xr

from meanfield.spec import RunSpec

from .description import spec_of


class FlowLayer(NamedTuple):
    """A layer that acts during part of a flow.

    Attributes:
        start: the time from which it acts; the first layer also acts before its start.
        number: its number from zero; for a model, its number in the model.
    """

    start: float
    number: int


def layers_passed(dataset: xr.Dataset) -> list[FlowLayer]:
    """The layers that begin before the last time of a run; empty without layers.

    A layer of a model takes one unit of time; the last layer acts for ever.
    """
    spec = spec_of(dataset)
    if spec is None:
        return []
    last = float(dataset["time"].values[-1])
    layers = list(takewhile(lambda layer: layer.start < last, _layers(spec, dataset)))
    return layers or _layers(spec, dataset)[:1]


def _layers(spec: RunSpec, dataset: xr.Dataset) -> list[FlowLayer]:
    if spec.model is not None:
        count = int(np.ceil(dataset["time"].values[-1]))
        numbers = spec.model_layers or range(int(dataset.attrs.get("n_layers", count)))
        return [FlowLayer(float(start), number) for start, number in enumerate(numbers)]
    if spec.depth == "interpolated":
        return []  # parameters are interpolated, so no single layer is active
    return [FlowLayer(layer.t, number) for number, layer in enumerate(spec.layers)]


def head_numbers(dataset: xr.Dataset, count: int) -> list[int]:
    """The numbers of `count` heads; for a model, their numbers in the model."""
    spec = spec_of(dataset)
    numbers = None if spec is None else spec.model_heads
    return list(numbers or range(count))[:count]
