"""Lines of attention: for each token, the tokens that it attends to most."""

from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting.reading.depth import head_numbers

from .packing import STEPS, pack

# For each token and head, only the `_PARTNERS` partners with the largest attention
# weights are kept.
_PARTNERS = 12
# At most `_MAX_NUMBERS` attention weights are kept in total, over tokens, heads and
# frames.
_MAX_NUMBERS = 1_500_000

Lines = dict[str, Any]


def lines(dataset: xr.Dataset) -> Lines | None:
    """For every token, its partners: the tokens that it attends to most.

    None if the dataset has no attention, or if some tokens were left out.

    `partners` and `weights` have shape (snapshot, head, token, partner); weights are
    entries of rows with sum one, in steps of $1/(2^{16} - 1)$.
    """
    sizes = dataset.sizes
    if "attention" not in dataset or sizes["query"] != sizes["token"]:
        return None
    matrices = dataset["attention"].transpose("snapshot", "head", "query", "token")
    plans = np.asarray(matrices.values, np.float64)
    max_partners = _MAX_NUMBERS // int(np.prod(plans.shape[:3]))
    count = max(1, min(_PARTNERS, plans.shape[-1], max_partners))
    order = np.argsort(-plans, axis=-1, kind="stable")[..., :count]
    weights = np.take_along_axis(plans, order, axis=-1)
    return {
        "heads": head_numbers(dataset, plans.shape[1]),
        "times": pack(np.asarray(dataset["snapshot"].values, np.float64)),
        "partners": pack(order),
        "weights": pack(np.rint(STEPS * np.clip(weights, 0.0, 1.0)).astype(int)),
    }
