"""Which tokens each token looks at: its heaviest partners, at some of the frames."""

from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting.reading.depth import head_numbers

from .packing import STEPS, packed

# Partners of a token that are kept, in each head.
_PARTNERS = 12
# Numbers that are kept of all tokens, heads and frames.
_KEPT = 1_500_000

Lines = dict[str, Any]


def lines(dataset: xr.Dataset) -> Lines | None:
    """The heaviest partners of every token, where the dataset has its attention.

    Nothing where tokens were left out, which others look at.

    `partners` and `weights` are of shape (snapshot, head, token, partner); a weight is
    that of a whole row of sum one, in steps of $1/(2^{16} - 1)$.
    """
    sizes = dataset.sizes
    if "attention" not in dataset or sizes["query"] != sizes["token"]:
        return None
    matrices = dataset["attention"].transpose("snapshot", "head", "query", "token")
    plans = np.asarray(matrices.values, np.float64)
    most = _KEPT // int(np.prod(plans.shape[:3]))
    count = max(1, min(_PARTNERS, plans.shape[-1], most))
    order = np.argsort(-plans, axis=-1, kind="stable")[..., :count]
    weights = np.take_along_axis(plans, order, axis=-1)
    return {
        "heads": head_numbers(dataset, plans.shape[1]),
        "times": packed(np.asarray(dataset["snapshot"].values, np.float64)),
        "partners": packed(order),
        "weights": packed(np.rint(STEPS * np.clip(weights, 0.0, 1.0)).astype(int)),
    }
