r"""A network's attention as a dynamics, and a text as its tokens.

What the state is: the velocity of a token at $x$ is exactly what the layer's attention
block computes there, before the residual sum. The sum $x + a(x)$ is one explicit Euler
step of unit length, so a flow over one unit of time per layer is the residual stream of
the attention blocks in continuous depth, *without* the network's LayerNorms and MLPs.
At the network's own hidden states (those that enter a layer, after LayerNorm) the field
is the network's to rounding; along a flow the states leave them, by what was left out.
"""

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, SupportsIndex

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import DTypeLike

from meanfield._array import float_array
from meanfield.attention import AbstractCoupling, Attention, Softmax
from meanfield.dynamics import Heads, Layers
from meanfield.errors import InvalidInputError
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._architecture import read
from .blocks import HeadWeights
from .checkpoint import Checkpoint


class Text(NamedTuple):
    """A text as a cloud of tokens, with the string of each token for labels.

    Examples:
        >>> from meanfield import models
        >>> text = models.embed(models.load("minilm"), "Alice was tired.")
        >>> text.words
        ('[CLS]', 'alice', 'was', 'tired', '.', '[SEP]')
    """

    tokens: Tokens
    words: tuple[str, ...]


def embed(checkpoint: Checkpoint, text: str, *, dtype: DTypeLike | None = None) -> Text:
    r"""The tokens of a text as the first layer meets them.

    The state is the network's own embedding, that of words, positions and all, after
    its LayerNorm. The position of token $i$ of $n$ is $(i + 1)/n$, counted from zero.

    Args:
        checkpoint: the network.
        text: one text; `[CLS]`, `[SEP]` and the like are added by its tokenizer.
        dtype: single or double; JAX's default if `None`.

    Raises:
        InputFileError: if a file is missing or damaged.
        InvalidInputError: if the text has more tokens than the network has positions.
        PrecisionError: if `dtype` is double while JAX rounds to single.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from meanfield import models
        >>> tokens, words = models.embed(models.load("minilm"), "Alice was tired.")
        >>> tokens.x.shape, len(words)
        ((6, 384), 6)
        >>> print(tokens.position)
        [0.1667 0.3333 0.5    0.6667 0.8333 1.    ]
    """
    precision = _dtype(dtype)
    network = read(checkpoint)
    ids, words = checkpoint.encode(text, limit=network.sizes.max_positions)
    n = len(ids)
    x = network.embedding(ids).astype(precision)
    position = (np.arange(1, n + 1) / n).astype(precision)
    tokens = Tokens(float_array("x", x), float_array("position", position))
    return Text(tokens, words)


def layers(
    checkpoint: Checkpoint,
    *,
    layers: SupportsIndex | Sequence[SupportsIndex] | None = None,
    heads: SupportsIndex | Sequence[SupportsIndex] | None = None,
    times: Sequence[float | int] | None = None,
    coupling: AbstractCoupling = Softmax(),
    dtype: DTypeLike | None = None,
) -> Layers:
    r"""The attention layers of a network, each for one unit of time.

    Scores are at their true scale $\epsilon = \sqrt{d_k}$, with the query and key
    biases. A head's value is $V_h = O_h W_h$, and its offset holds the value bias and
    its share of the output bias: the output bias over the number of *all* heads, so
    that parts of a layer add up to it.

    Args:
        checkpoint: the network.
        layers: one layer, or several in the order they act, counted from zero; a layer
            may come again. All if `None`.
        heads: one head, or several, kept in each layer. All if `None`.
        times: edges of the layers in time, one more than there are layers;
            $0, 1, 2, \ldots$ if `None`.
        coupling: the rule from scores to weights, if not the network's own; offsets
            are right only if its weights sum to one.
        dtype: single or double; JAX's default if `None`.

    Raises:
        InputFileError: if a file is missing or damaged.
        InvalidInputError: if there is no such layer or head, or `times` does not fit.
        PrecisionError: if `dtype` is double while JAX rounds to single.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from meanfield import Points, models
        >>> checkpoint = models.load("minilm")
        >>> first = models.layers(checkpoint, layers=0)
        >>> tokens, _ = models.embed(checkpoint, "Alice was tired.")
        >>> mu = Points.uniform(tokens.x, position=tokens.position)
        >>> first.field(0.0, mu)(mu.tokens).shape
        (6, 384)
    """
    precision = _dtype(dtype)
    network = read(checkpoint)
    sizes = network.sizes
    depth = _selection("layer", layers, sizes.n_layers)
    kept = _selection("head", heads, sizes.n_heads)
    if len(set(kept)) < len(kept):
        raise InvalidInputError(f"`heads` must differ from each other; got {kept}.")
    edges = _edges(times, len(depth)).astype(precision)
    per_layer = [_parts(network.heads(layer).subset(kept)) for layer in depth]
    stacks = tuple(
        float_array("weights", np.stack(part).astype(precision))
        for part in zip(*per_layer, strict=True)
    )
    head = partial(_head, coupling, math.sqrt(sizes.head_dimension))
    layer_of = lambda parts: Heads(eqx.filter_vmap(head)(parts))
    return Layers(edges, eqx.filter_vmap(layer_of)(stacks))


def _edges(
    times: Sequence[float | int] | None, n_layers: int
) -> Float[Array, " edges"]:
    edges = list(range(n_layers + 1)) if times is None else list(times)
    if len(edges) != n_layers + 1:
        raise InvalidInputError(
            f"`times` must hold {n_layers + 1} edges for {n_layers} layers; got "
            f"{len(edges)}."
        )
    return float_array("times", edges)


def _parts(weights: HeadWeights) -> tuple[np.ndarray, ...]:
    return (
        weights.Q,
        weights.K,
        weights.query_bias,
        weights.key_bias,
        weights.value,
        weights.offset,
    )


def _head(
    coupling: AbstractCoupling, epsilon: float, parts: tuple[Array, ...]
) -> Attention:
    Q, K, query_bias, key_bias, value, offset = parts
    score = Dot(Q, K, epsilon, query_bias=query_bias, key_bias=key_bias)
    return Attention(score, coupling, value, offset)


def _selection(
    kind: str, chosen: SupportsIndex | Sequence[SupportsIndex] | None, n: int
) -> list[int]:
    if chosen is None:
        return list(range(n))
    several = chosen if isinstance(chosen, Sequence) else [chosen]
    indices = [operator.index(one) for one in several]
    unknown = [i for i in indices if not 0 <= i < n]
    if unknown:
        raise InvalidInputError(
            f"There is no {kind} {unknown[0]}; the network has {n}, numbered 0 to "
            f"{n - 1}."
        )
    if not indices:
        raise InvalidInputError(f"`{kind}s` must name at least one {kind}; got none.")
    return indices


def _dtype(dtype: DTypeLike | None) -> np.dtype:
    precision = np.dtype(jnp.result_type(float) if dtype is None else dtype)
    if precision not in (np.float32, np.float64):
        raise InvalidInputError(
            "`dtype` must be float32 or float64, since scores are exponentiated; got "
            f"{precision}."
        )
    float_array("dtype", np.zeros(0, precision))  # refuses what JAX would round
    return precision
