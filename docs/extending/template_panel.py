"""A panel to begin from: how many tokens a token looks at, by its attention matrix.

Try it as it stands, on a run of tokens under any attention, a plugin's included:

    meanfield simulate --A 2 --n 30 --d 2 --t 1 --frames 5 --out run.zarr
    meanfield plot run.zarr --panel focus --plugin THIS_FILE.py
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from meanfield.errors import InvalidInputError
from meanfield.plotting import attention_panel, covariances, style, titled_figure


# The name behind `--panel`. A panel that needs no attention matrices is registered by
# `@panels.register("focus")` (of meanfield.plotting): it then draws any run.
@attention_panel("focus")
@style()  # the look of all panels; your own settings are put back afterwards
def focus(dataset: xr.Dataset) -> Figure:
    """The spread of a run over time, and at how many tokens each token looks.

    A panel gets the dataset of a run and returns a figure. `print(dataset)` shows what
    is there: of tokens `x` with the dims (time, token, coord) and `weight`; of a
    Gaussian `mean` and `factor`; of a grid `density`; of all `time`, `status`, `t_star`
    and, in `attrs`, the spec. Several draws or starts lead with the dim `run`.
    """
    figure = titled_figure(dataset, (9.0, 4.0))  # inches; with title and small print
    left, right = figure.subplots(1, 2)

    # What every measure has: `covariances`, `effective_rank` (of meanfield.plotting).
    traces = np.trace(covariances(dataset), axis1=-2, axis2=-1)
    left.plot(dataset["time"], traces.T)
    left.set(xlabel="time $t$", ylabel=r"$\mathrm{tr}\,\Sigma$")

    # Attention matrices, with the dims (snapshot, head, query, token), at the first,
    # the middle and the last frame, or at the times that `--at` names.
    matrices = dataset["attention"]
    for time in matrices["snapshot"].values:
        first_head = matrices.sel(snapshot=time).values[0]
        right.plot(np.sort(partners(first_head)), label=f"$t$ = {time:.3g}")
    right.set(xlabel="tokens, sorted", ylabel="tokens that it looks at")
    right.set_ylim(0, None)
    right.legend()
    return figure


def partners(matrix: np.ndarray) -> np.ndarray:
    """The exponential of each row's entropy: n for even weights, 1 for a single one.

    Raises:
        InvalidInputError: if a weight is negative, or a row has none.
    """
    totals = matrix.sum(axis=1, keepdims=True)
    if np.any(matrix < 0) or np.any(totals == 0):
        raise InvalidInputError("Rows of positive weights have an entropy; these not.")
    shares = matrix / totals
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.exp(-np.sum(shares * logs, axis=1))
