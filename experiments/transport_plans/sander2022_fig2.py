r"""Figure 2 of Sinkformers: what the columns of trained attention matrices sum to.

The paper sees them approach one while a network trains. Here they are those of a
trained sentence encoder, MiniLM, at the states where the network itself evaluates its
attention: its own forward pass, LayerNorms and MLPs included. Beside them stand random
matrices, whose rows are softmax of independent Gaussian scores with the standard
deviation of the head's, and Sinkhorn's matrices of the same scores at the same states.
Rows sum to one throughout: a column's sum is in units of an equal share.
"""

from typing import Any, NamedTuple, cast

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from scipy.special import softmax

from experiments.transport_plans.columns import draw_columns, draw_kinds, draw_share
from experiments.transport_plans.passage import PASSAGE
from meanfield import models
from meanfield.attention import Sinkhorn, plans
from meanfield.dynamics import Heads, Layers
from meanfield.measures import Points
from meanfield.plotting import style
from meanfield.reproduce import Case, Experiment, Findings

MODEL, SEED = "minilm", 0
CHARACTERS = {"quick": 150, "paper": len(PASSAGE)}
KINDS = ("[CLS]", "[SEP]", "punctuation", "words")
NEAR = 2.0  # a column is near one if within this factor of it
CONVERGED = 1e-9  # of a column sum; where Sinkhorn converges it is a thousandth of it
LOWEST = 3e-3  # of the drawing; a few columns of one head lie below
NAMED = 5  # tokens that get a name among those that receive most


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
    kinds = shares_of_kinds(sums.trained, text.words)
    return Findings(
        spec={"model": MODEL, "text": passage, "seed": SEED},
        numbers={
            **{name: summary(part) for name, part in sums._asdict().items()},
            **receivers(sums.trained, text.words),
            **dict(zip(("layers", "heads", "tokens"), sums.trained.shape, strict=True)),
            "kinds": list(KINDS),
            "kinds_received": kinds["received"].mean("layer").values.tolist(),
            "kinds_tokens": kinds["tokens"].values.tolist(),
            "near": NEAR,
        },
        data={"columns": columns, "kinds": kinds},
    )


def column_sums(checkpoint: models.Checkpoint, passage: str) -> Sums:
    """All column sums at the states of the network."""
    states = models.hidden_states(checkpoint, passage)[0][:-1]
    trained = matrices(models.layers(checkpoint), states)
    control = random_like(trained, np.random.default_rng(SEED))
    balanced = matrices(models.layers(checkpoint, coupling=Sinkhorn()), states)
    return Sums(*(weights.sum(axis=-2) for weights in (trained, control, balanced)))


def shares_of_kinds(
    sums: Float[np.ndarray, "l h n"], words: tuple[str, ...]
) -> xr.Dataset:
    """What each kind of token receives by layer, and its share of the tokens."""
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
    """A token of its own kind, punctuation or (a piece of) a word."""
    if word in KINDS[:2]:
        return word
    return KINDS[3] if any(c.isalnum() for c in word) else KINDS[2]


def matrices(
    layers: Layers, states: Float[np.ndarray, "l n d"]
) -> Float[np.ndarray, "l h n n"]:
    """The attention matrices of each layer at the states that enter it."""
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
    """Softmax of independent Gaussian scores, as spread as those of each head.

    A row of scores is known up to a constant, as the logarithm of its weights.
    """
    spread = np.log(trained).std(axis=-1).mean(axis=-1)[..., None, None]
    return softmax(spread * rng.standard_normal(trained.shape), axis=-1)


def summary(sums: Float[np.ndarray, "l h n"]) -> dict[str, Any]:
    """How far from one the column sums of all heads are."""
    near = (sums >= 1 / NEAR) & (sums <= NEAR)
    spread, error = sums.std(axis=-1), abs(sums - 1).max(axis=-1)
    return {
        "near": float(near.mean()),
        "near_by_layer": near.mean(axis=(1, 2)).tolist(),
        "starved": float((sums < 1 / NEAR).mean()),
        "median": float(np.median(sums)),
        "largest": float(sums.max()),
        "spread": float(np.median(spread)),
        "spread_by_layer": np.median(spread, axis=1).tolist(),
        "error": float(error.max()),
        "error_median": float(np.median(error)),
        "heads_off": int(np.count_nonzero(error > CONVERGED)),
    }


def receivers(
    sums: Float[np.ndarray, "l h n"], words: tuple[str, ...]
) -> dict[str, Any]:
    """Which tokens receive most."""
    n = len(words)
    first = sums[..., 0]
    mean = sums.mean(axis=(0, 1))
    most = np.argsort(mean)[: -NAMED - 1 : -1]
    return {
        "first": words[0],
        "first_share": float(first.mean() / n),
        "first_share_by_layer": (first.mean(axis=1) / n).tolist(),
        "first_share_most": float(first.max() / n),
        "heads_all": int(first.size),
        "heads_on_first": int(np.count_nonzero(sums.argmax(axis=-1) == 0)),
        "heads_on_first_by_layer": (sums.argmax(axis=-1) == 0).sum(axis=1).tolist(),
        "most": [
            {"token": words[i], "index": int(i), "sum": float(mean[i])} for i in most
        ],
    }


@style()
def draw(findings: Findings) -> Figure:
    """Sorted column sums by layer; below, the share of the first token, and by kind."""
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
    draw_share(figure.add_subplot(grid[2, :7]), columns)
    draw_kinds(figure.add_subplot(grid[2, 7:]), kinds)
    return figure


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
        "one. {trained[near]:.0%} of the column sums are within a factor {near:.0f} of "
        "one ({trained[near_by_layer][0]:.0%} in the first layer, "
        "{trained[near_by_layer][5]:.0%} in the last, {random[near]:.0%} for random "
        "scores of the same variance), while those of Sinkhorn are one within "
        "{sinkhorn[error]:.0e}. {heads_on_first} of {heads_all} heads attend most to "
        "{first}, which receives {first_share:.0%} of all attention and up to "
        "{first_share_most:.0%} of that of a head."
    ),
    description=(
        "Each line shows the column sums of a head of MiniLM in descending order: "
        "close to the flat green line of Sinkhorn in layer 1, steep in later layers, "
        "where the dot on top is [CLS]. Below are the attention to [CLS] in each head, "
        "and to each kind of token in each layer."
    ),
    compute=compute,
    draw=draw,
)
