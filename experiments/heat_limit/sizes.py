"""How much of everything the heat limit is measured with."""

from typing import NamedTuple

import numpy as np


class Sizes(NamedTuple):
    """How much of everything.

    Attributes:
        fields: halvings of the bandwidth 0.04 for velocities.
        nodes: tokens on a line for them.
        flows: bandwidths of flows.
        cells: of the grid.
        quantiles: tokens at quantiles that flow.
        clouds: bandwidths of clouds that do not.
        numbers: of tokens of these clouds.
        draws: of each number.
        meshes: bandwidths for ever wider cells.
    """

    fields: int
    nodes: int
    flows: np.ndarray
    cells: int
    quantiles: int
    clouds: np.ndarray
    numbers: np.ndarray
    draws: np.ndarray
    meshes: np.ndarray


def halved(largest: float, count: int) -> np.ndarray:
    """Bandwidths, each half of the last."""
    return largest / 2.0 ** np.arange(count)


SIZES = {
    "quick": Sizes(
        fields=4,
        nodes=360,
        flows=halved(0.08, 3),
        cells=160,
        quantiles=256,
        clouds=halved(0.16, 4),
        numbers=np.array([125.0, 250.0, 500.0]),
        draws=np.array([48, 24, 12]),
        meshes=halved(0.04, 4),
    ),
    "paper": Sizes(
        fields=6,
        nodes=1000,
        flows=halved(0.04, 4),
        cells=400,
        quantiles=1024,
        clouds=halved(0.04, 4),
        numbers=np.array([500.0, 1000.0, 2000.0]),
        draws=np.array([64, 32, 16]),
        meshes=halved(0.04, 5),
    ),
}
