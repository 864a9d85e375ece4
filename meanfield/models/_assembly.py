r"""The attention of a network as a dynamical system, and the tokens of a text.

The velocity of a token at $x$ is the output of the layer's attention block there,
before the residual sum. The sum $x + a(x)$ is one explicit Euler step of unit length,
so a flow over one unit of time per layer is the residual stream of the attention blocks
in continuous depth, *without* the network's LayerNorms and MLPs. At the hidden states
that enter a layer of the network (after LayerNorm), the velocity equals the output of
its attention block up to rounding. Along a flow the states deviate from these, because
LayerNorms and MLPs are missing.
"""

import math
import operator
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
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
from .checkpoint import Checkpoint

# The arrays of `HeadWeights` that make an attention.
_PARTS = attrgetter("Q", "K", "query_bias", "key_bias", "value", "offset")


class Text(NamedTuple):
    """A text as tokens, with the string of each token as a label.

    Examples:
        >>> from meanfield import models
        >>> text = models.embed(models.load("minilm"), "Alice was tired.")
        >>> text.words
        ('[CLS]', 'alice', 'was', 'tired', '.', '[SEP]')
    """

    tokens: Tokens
    words: tuple[str, ...]


def embed(checkpoint: Checkpoint, text: str, *, dtype: DTypeLike | None = None) -> Text:
    r"""The tokens of a text, with the states that enter the first layer.

    The state is the network's embedding of words, positions and segments, after its
    LayerNorm. The position of token $i = 0, \ldots, n - 1$ is $(i + 1)/n$.

    Args:
        checkpoint: the network.
        text: one text; the tokenizer adds special tokens such as `[CLS]` and `[SEP]`.
        dtype: single or double precision; JAX's default if `None`.

    Raises:
        InputFileError: if a file is missing or damaged.
        InvalidInputError: if the text has more tokens than the network has positions.
        PrecisionError: if `dtype` is double but JAX computes in single precision.
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
    r"""The attention layers of a network, each acting for one unit of time.

    Scores have the network's scale $\epsilon = \sqrt{d_k}$ and its query and key
    biases. The value of a head is $V_h = O_h W_h$; its offset holds the value bias and
    the output bias divided by the number of *all* heads, so that subsets of the heads
    of a layer add up to the layer.

    Args:
        checkpoint: the network.
        layers: index of one layer, or indices in the order in which layers act, counted
            from zero; a layer may be repeated. All if `None`.
        heads: index of one head, or indices of the heads to keep in each layer. All if
            `None`.
        times: the times at which layers begin, and the time at which the last ends;
            $0, 1, 2, \ldots$ if `None`.
        coupling: the rule from scores to weights; the network's own is `Softmax()`.
            Offsets are right only if weights sum to one.
        dtype: single or double precision; JAX's default if `None`.

    Raises:
        InputFileError: if a file is missing or damaged.
        InvalidInputError: if there is no such layer or head, or `times` does not fit.
        PrecisionError: if `dtype` is double but JAX computes in single precision.
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
    layer_indices = _selection("layer", layers, sizes.n_layers)
    head_indices = _selection("head", heads, sizes.n_heads)
    if len(set(head_indices)) < len(head_indices):
        raise InvalidInputError(f"`heads` must be distinct; got {head_indices}.")
    edges = _edges(times, len(layer_indices)).astype(precision)
    layer_weights = [
        _PARTS(network.heads(layer).subset(head_indices)) for layer in layer_indices
    ]
    stacks = tuple(
        float_array("weights", np.stack(part).astype(precision))
        for part in zip(*layer_weights, strict=True)
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
            f"`times` must hold {n_layers + 1} numbers for {n_layers} layers, as it "
            f"includes the end of the last layer; got {len(edges)}."
        )
    return float_array("times", edges)


def _head(
    coupling: AbstractCoupling, epsilon: float, parts: tuple[Array, ...]
) -> Attention:
    Q, K, query_bias, key_bias, value, offset = parts
    score = Dot(Q, K, epsilon, query_bias=query_bias, key_bias=key_bias)
    return Attention(score, coupling, value, offset)


def _selection(
    kind: str, request: SupportsIndex | Sequence[SupportsIndex] | None, n: int
) -> list[int]:
    if request is None:
        return list(range(n))
    several = request if isinstance(request, Sequence) else [request]
    indices = [operator.index(index) for index in several]
    invalid_indices = [i for i in indices if not 0 <= i < n]
    if invalid_indices:
        raise InvalidInputError(
            f"There is no {kind} {invalid_indices[0]}; the network has {n}, numbered 0 "
            f"to {n - 1}."
        )
    if not indices:
        raise InvalidInputError(f"`{kind}s` must name at least one {kind}; got none.")
    return indices


def _dtype(dtype: DTypeLike | None) -> np.dtype:
    precision = np.dtype(jnp.result_type(float) if dtype is None else dtype)
    if precision not in (np.float32, np.float64):
        raise InvalidInputError(
            "`dtype` must be float32 or float64, because scores are exponentiated; got "
            f"{precision}."
        )
    float_array("dtype", np.zeros(0, precision))  # raises if JAX would round float64
    return precision
