"""Panels of column sums of attention matrices: the total attention to each token."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from experiments.attention_styles import attention_style

_SINKHORN, _TRAINED = (attention_style(n).colour for n in ("Sinkhorn", "softmax"))
_RANDOM, _FIRST = "#8a8a8a", "#222222"


def draw_columns(axes: Axes, sums: xr.Dataset) -> None:
    """Draws sorted column sums of each head of a layer; dots mark the first token."""
    rank = np.arange(1, sums.sizes["token"] + 1)
    ordered = {
        name: np.sort(sums[name].values, axis=-1)[:, ::-1]
        for name in ("trained", "random", "sinkhorn")
    }
    random = ordered["random"]
    axes.fill_between(
        *(rank, random.min(0), random.max(0)),
        color=_RANDOM,
        alpha=0.45,
        linewidth=0,
        label="random scores, range of the heads",
    )
    lines = axes.loglog(
        rank, ordered["trained"].T, color=_TRAINED, linewidth=0.8, alpha=0.75
    )
    lines[0].set_label("trained, one line for each head")
    line = axes.loglog(rank, ordered["sinkhorn"].T, color=_SINKHORN, linewidth=1.6)
    line[0].set_label("Sinkhorn, all heads")
    first = sums["trained"].values[:, 0]
    axes.loglog(
        *((sums["trained"].values > first[:, None]).sum(axis=1) + 1, first),
        *(".",),
        color=_FIRST,
        label=f"the column of {sums['token'].values[0]}",
    )
    axes.grid(visible=True)


def draw_first_token(axes: Axes, sums: xr.Dataset) -> None:
    """Draws the fraction of attention to the first token, for each head."""
    n, first = sums.sizes["token"], sums["token"].values[0]
    percent = 100 * sums["trained"].values[..., 0] / n
    axes.imshow(percent, cmap="Oranges", vmin=0, vmax=1.25 * percent.max())
    for (layer, head), value in np.ndenumerate(percent):
        axes.text(head, layer, f"{value:.0f}", ha="center", va="center", fontsize=9)
    n_layers, n_heads = percent.shape
    axes.set(
        xlabel="head",
        ylabel="layer",
        xticks=np.arange(n_heads),
        xticklabels=np.arange(1, n_heads + 1),
        yticks=np.arange(n_layers),
        yticklabels=np.arange(1, n_layers + 1),
        title=f"attention to {first} in % (equal share {100 / n:.1f})",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def draw_kinds(axes: Axes, kinds: xr.Dataset) -> None:
    """Draws attention to each kind of token by layer, and the fraction of each kind."""
    fractions = np.vstack([kinds["received"].values, kinds["tokens"].values])
    positions = np.append(np.arange(len(fractions) - 1), len(fractions) - 0.6)
    left = np.zeros(len(fractions))
    colours = (_FIRST, "C4", "C3", "C5")
    for kind, widths, colour in zip(
        kinds["kind"].values, fractions.T, colours, strict=True
    ):
        axes.barh(positions, widths, 0.75, left=left, color=colour, label=kind)
        left += widths
    labels = [*(f"{layer + 1}" for layer in range(len(fractions) - 1)), "tokens"]
    axes.set(
        xlim=(0, 1),
        xlabel="fraction of attention, mean over heads",
        ylabel="layer",
        yticks=positions,
        yticklabels=labels,
        title="attention by kind of token; below, fractions of tokens",
    )
    axes.invert_yaxis()
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        ncols=4,
        columnspacing=1.0,
        handlelength=1.0,
        handletextpad=0.4,
    )
