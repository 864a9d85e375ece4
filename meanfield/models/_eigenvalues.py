"""The eigenvalues of every head of a checkpoint, for a picture."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from ._architecture import read
from .blocks import HeadWeights, eigenvalues
from .checkpoint import Checkpoint


def head_eigenvalues(
    checkpoint: Checkpoint, *, report: Callable[[int], None] | None = None
) -> xr.Dataset:
    r"""The eigenvalues of each head that can be nonzero, by `layer` and `head`.

    `score` has those of the symmetric part of $A = K^\top Q / \epsilon$, in increasing
    order; `value` those of $V$, and `product` those of $M = VA$, the
    complex numbers in no order. By $x \mapsto Mx$, up to a constant, one head moves
    tokens that are a standard Gaussian, whose covariance so changes at the rate
    $M + M^\top$: as $M$ is not normal, its signs are not those of
    $\mathrm{Re}\,\lambda(M)$.

    Args:
        checkpoint: the network.
        report: is called with the number of a layer before that is read.

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
        layers.append(_of_layer(network.heads(layer)))
    return xr.concat(layers, "layer").assign_coords(layer=np.arange(len(layers)))


def _of_layer(weights: HeadWeights) -> xr.Dataset:
    score, value, product = eigenvalues(weights)
    return xr.Dataset(
        {
            "score": (("head", "score_index"), score),
            "value": (("head", "index"), value),
            "product": (("head", "index"), product),
        },
        {"head": np.arange(len(score))},
    )
