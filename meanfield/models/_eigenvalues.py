"""Eigenvalues of every head of a checkpoint, as a dataset for plots."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from ._architecture import read
from .blocks import HeadWeights, eigenvalues
from .checkpoint import Checkpoint


def head_eigenvalues(
    checkpoint: Checkpoint, *, report: Callable[[int], None] | None = None
) -> xr.Dataset:
    r"""For each `layer` and `head`, the eigenvalues that can be nonzero.

    `score` holds the eigenvalues of the symmetric part of $A = K^\top Q / \epsilon$, in
    increasing order. `value` is for $V$ and `product` for $M = VA$; both are complex
    and not sorted. If tokens have a standard Gaussian law, one head gives them the
    velocity $Mx$, up to a constant. Their covariance changes at the rate $M + M^\top$.
    As $M$ is not normal, the eigenvalues of this rate can differ in sign from
    $\mathrm{Re}\,\lambda(M)$.

    Args:
        checkpoint: the network.
        report: called with the number of each layer before it is read.

    Raises:
        InputFileError: if a file is missing, damaged or of an unknown architecture.

    Examples:
        >>> from meanfield import models
        >>> data = models.head_eigenvalues(models.load("minilm"))
        >>> data["score"].shape, data["value"].shape
        ((6, 12, 64), (6, 12, 32))
        >>> int((data["score"] > 0).sum()), int((data["score"] < 0).sum())
        (2304, 2304)
    """
    network = read(checkpoint)
    layers = []
    for layer in range(network.sizes.n_layers):
        if report is not None:
            report(layer)
        layers.append(_layer_dataset(network.heads(layer)))
    return xr.concat(layers, "layer").assign_coords(layer=np.arange(len(layers)))


def _layer_dataset(weights: HeadWeights) -> xr.Dataset:
    score, value, product = eigenvalues(weights)
    return xr.Dataset(
        {
            "score": (("head", "score_index"), score),
            "value": (("head", "index"), value),
            "product": (("head", "index"), product),
        },
        {"head": np.arange(len(score))},
    )
