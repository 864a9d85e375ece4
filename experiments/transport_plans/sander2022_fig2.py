r"""Figure 2 of Sinkformers: column sums of trained attention matrices.

In the paper the column sums approach one during training. Here they are computed for a
trained sentence encoder, MiniLM, at the hidden states of its own forward pass, with
LayerNorms and MLPs. They are compared with the column sums of random matrices, and of
Sinkhorn matrices with the trained scores at the same states. A random matrix is the
softmax of independent Gaussian scores with the standard deviation of a head's scores.
All rows sum to one, so a column sum of one is an equal share of the attention.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from scipy.special import softmax

from experiments.transport_plans.columns import (
    draw_columns,
    draw_first_token,
    draw_kinds,
)
from experiments.transport_plans.passage import PASSAGE
from meanfield import models
from meanfield.attention import Sinkhorn, plans
from meanfield.dynamics import Heads, Layers
from meanfield.measures import Points
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings, Rows

MODEL, SEED = "minilm", 0
CHARACTERS = {"quick": 150, "paper": len(PASSAGE)}
KINDS = ("[CLS]", "[SEP]", "punctuation", "words")
NEAR = 2.0  # a column sum within this factor of one counts as near one
CONVERGED = 1e-9  # largest error of the column sums of a converged head
LOWEST = 3e-3  # lower end of the axis; only a few column sums of one head are smaller
N_TOP = 5  # number of tokens in the findings, those that receive the most attention


class Sums(NamedTuple):
    """Column sums by layer, head and token."""

    trained: Float[np.ndarray, "l h n"]
    random: Float[np.ndarray, "l h n"]
    sinkhorn: Float[np.ndarray, "l h n"]


def compute(case: Case) -> Findings:
    """Column sums in the network, in random matrices and under Sinkhorn."""
    checkpoint = models.load(MODEL)
    passage = PASSAGE[: CHARACTERS[case.size]]
    text = models.embed(checkpoint, passage)
    sums = column_sums(checkpoint, passage)
    columns = xr.Dataset(
        {n: (("layer", "head", "token"), v) for n, v in sums._asdict().items()},
        {"token": list(text.words)},
    )
    kinds = fractions_of_kinds(sums.trained, text.words)
    return Findings(
        spec={"model": MODEL, "text": passage, "seed": SEED},
        numbers={
            **{name: summary(part) for name, part in sums._asdict().items()},
            **receivers(sums.trained, text.words),
            **dict(zip(("layers", "heads", "tokens"), sums.trained.shape, strict=True)),
            "kinds": list(KINDS),
            "kinds_received": kinds["received"].mean("layer").values.tolist(),
            "kinds_tokens": kinds["tokens"].values.tolist(),
            "factor": NEAR,
        },
        data={"columns": columns, "kinds": kinds},
    )


def column_sums(checkpoint: models.Checkpoint, passage: str) -> Sums:
    """Column sums of all matrices at the hidden states of the network."""
    states = models.hidden_states(checkpoint, passage)[0][:-1]
    trained = matrices(models.layers(checkpoint), states)
    control = random_like(trained, np.random.default_rng(SEED))
    balanced = matrices(models.layers(checkpoint, coupling=Sinkhorn()), states)
    return Sums(*(weights.sum(axis=-2) for weights in (trained, control, balanced)))


def fractions_of_kinds(
    sums: Float[np.ndarray, "l h n"], words: tuple[str, ...]
) -> xr.Dataset:
    """Attention to each kind of token by layer, and fractions of tokens by kind."""
    kinds = np.array([kind_of(word) for word in words])
    masks = np.stack([kinds == kind for kind in KINDS])
    return xr.Dataset(
        {
            "received": (("layer", "kind"), (sums.mean(axis=1) / len(words)) @ masks.T),
            "tokens": ("kind", masks.mean(axis=1)),
        },
        {"kind": list(KINDS)},
    )


def kind_of(word: str) -> str:
    """The kind of a token: `[CLS]`, `[SEP]`, punctuation or words (or their pieces)."""
    if word in KINDS[:2]:
        return word
    return KINDS[3] if any(c.isalnum() for c in word) else KINDS[2]


def matrices(
    layers: Layers, states: Float[np.ndarray, "l n d"]
) -> Float[np.ndarray, "l h n n"]:
    """The attention matrices of each layer at its input states."""
    times = np.arange(len(states), dtype=states.dtype)
    return np.stack([_heads(layers, t, x) for t, x in zip(times, states, strict=True)])


@eqx.filter_jit
def _heads(layers: Layers, t: Array, x: Array) -> Array:
    mu = Points.uniform(x)
    heads = cast(Heads, layers.member(t)).stack
    return eqx.filter_vmap(lambda head: plans(head, t, mu)[0])(heads)


def random_like(
    trained: Float[np.ndarray, "l h n n"], rng: np.random.Generator
) -> Float[np.ndarray, "l h n n"]:
    """Softmax of Gaussian scores with the standard deviation of each head's scores.

    Scores are known from weights: a row of scores is the logarithm of the row of
    weights, up to a constant.
    """
    spread = np.log(trained).std(axis=-1).mean(axis=-1)[..., None, None]
    return softmax(spread * rng.standard_normal(trained.shape), axis=-1)


def summary(sums: Float[np.ndarray, "l h n"]) -> dict[str, Any]:
    """Statistics of the deviations of column sums from one, over all heads."""
    is_near = (sums >= 1 / NEAR) & (sums <= NEAR)
    spread, error = sums.std(axis=-1), abs(sums - 1).max(axis=-1)
    return {
        "fraction_near": float(is_near.mean()),
        "fraction_near_by_layer": is_near.mean(axis=(1, 2)).tolist(),
        "fraction_low": float((sums < 1 / NEAR).mean()),
        "median": float(np.median(sums)),
        "largest": float(sums.max()),
        "spread": float(np.median(spread)),
        "spread_by_layer": np.median(spread, axis=1).tolist(),
        "error": float(error.max()),
        "error_median": float(np.median(error)),
        "n_heads_not_converged": int(np.count_nonzero(error > CONVERGED)),
    }


def receivers(
    sums: Float[np.ndarray, "l h n"], words: tuple[str, ...]
) -> dict[str, Any]:
    """Attention to the first token, and the tokens with the most attention."""
    n = len(words)
    first = sums[..., 0]
    mean = sums.mean(axis=(0, 1))
    top = np.argsort(mean)[: -N_TOP - 1 : -1]
    return {
        "first": words[0],
        "first_fraction": float(first.mean() / n),
        "first_fraction_by_layer": (first.mean(axis=1) / n).tolist(),
        "first_fraction_max": float(first.max() / n),
        "n_heads": int(first.size),
        "n_heads_on_first": int(np.count_nonzero(sums.argmax(axis=-1) == 0)),
        "n_heads_on_first_by_layer": (sums.argmax(axis=-1) == 0).sum(axis=1).tolist(),
        "top_tokens": [
            {"token": words[i], "index": int(i), "sum": float(mean[i])} for i in top
        ],
    }


@style()
def draw(findings: Findings) -> Figure:
    """Draws the column sums, and the attention to the first token and to each kind."""
    columns, kinds = findings.data["columns"], findings.data["kinds"]
    figure = Figure(figsize=(10.4, 9.4), layout="constrained")
    grid = figure.add_gridspec(3, 12, height_ratios=[1, 1, 1.15])
    shared = None
    for layer in range(columns.sizes["layer"]):
        row, column = divmod(layer, 3)
        cell = grid[row, 4 * column : 4 * column + 4]
        axes = figure.add_subplot(cell, sharex=shared, sharey=shared)
        shared = shared or axes
        draw_columns(axes, columns.isel(layer=layer))
        axes.set_title(f"layer {layer + 1}")
        if column == 0:
            axes.set_ylabel("column sum")
        if row == 1:
            axes.set_xlabel("rank of the column")
    figure.axes[0].set_ylim(bottom=LOWEST)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles))
    draw_first_token(figure.add_subplot(grid[2, :7]), columns)
    draw_kinds(figure.add_subplot(grid[2, 7:]), kinds)
    return figure


def table(numbers: Mapping[str, Any]) -> Rows:
    """Table of column sums for the trained, random and Sinkhorn matrices."""
    near = f"within a factor {numbers['factor']:.0f} of one"
    heads = (near, "in the first layer", "in the last layer", "median", "largest error")
    labels = {"trained": "trained", "random": "random scores", "sinkhorn": "Sinkhorn"}
    rows = []
    for name, label in labels.items():
        part = numbers[name]
        layers = part["fraction_near_by_layer"]
        fractions = part["fraction_near"], layers[0], layers[-1]
        sums = f"{part['median']:.2f}", f"{part['error']:.1e}"
        rows.append((label, *(f"{fraction:.0%}" for fraction in fractions), *sums))
    return [("column sums", *heads), *rows]


EXPERIMENT = Experiment(
    source="sander2022, Figure 2",
    claim=(
        "In a trained sentence encoder the column sums of softmax attention are near "
        "one in the first layer only; in later layers attention concentrates on the "
        "first token. All column sums of Sinkhorn are one."
    ),
    caption=(
        "Column sums of the attention matrices of MiniLM, {layers} layers of {heads} "
        "heads, at the hidden states of a paragraph of {tokens} tokens; rows sum to "
        "one. {trained[fraction_near]:.0%} of the column sums are within a factor "
        "{factor:.0f} of one, and {random[fraction_near]:.0%} for random scores of the "
        "same variance. {n_heads_on_first} of {n_heads} heads attend most to {first}, "
        "which receives {first_fraction:.0%} of all attention and up to "
        "{first_fraction_max:.0%} of that of a head."
    ),
    table=table,
    description=(
        "Each line shows the column sums of a head of MiniLM in descending order: "
        "close to the flat line of Sinkhorn in layer 1, steep in later layers, "
        "where the dot on top is [CLS]. Below are the attention to [CLS] in each head, "
        "and to each kind of token in each layer."
    ),
    compute=compute,
    draw=draw,
)
