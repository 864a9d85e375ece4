"""Problem sizes of the experiment on the heat limit."""

from typing import NamedTuple

import numpy as np


class Sizes(NamedTuple):
    """Bandwidths, and numbers of tokens, cells and draws.

    Attributes:
        fields: number of bandwidths at which velocities are computed.
        nodes: number of tokens whose velocities are computed.
        flows: bandwidths at which flows are integrated.
        cells: number of cells of the grid.
        quantiles: number of tokens at quantiles in flows.
        clouds: bandwidths at which clouds of tokens are measured.
        numbers: numbers of tokens of these clouds.
        draws: number of draws for each number of tokens.
        meshes: bandwidths at which cell widths are compared.
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


def halving_sequence(largest: float, n: int) -> np.ndarray:
    """The numbers `largest`, `largest / 2`, `largest / 4` and so on, `n` in total."""
    return largest / 2.0 ** np.arange(n)


SIZES = {
    "quick": Sizes(
        fields=4,
        nodes=360,
        flows=halving_sequence(0.08, 3),
        cells=160,
        quantiles=256,
        clouds=halving_sequence(0.16, 4),
        numbers=np.array([125.0, 250.0, 500.0]),
        draws=np.array([48, 24, 12]),
        meshes=halving_sequence(0.04, 4),
    ),
    "paper": Sizes(
        fields=6,
        nodes=1000,
        flows=halving_sequence(0.04, 4),
        cells=400,
        quantiles=1024,
        clouds=halving_sequence(0.04, 4),
        numbers=np.array([500.0, 1000.0, 2000.0]),
        draws=np.array([64, 32, 16]),
        meshes=halving_sequence(0.04, 5),
    ),
}
