"""Comparison of a network's hidden states with the flow of its attention.

Network and flow start at the embedding. The network has LayerNorms and MLPs; the flow
has only the attention blocks, for one unit of time per layer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from numpy.typing import DTypeLike

from meanfield.flows import adaptive, flow
from meanfield.measures import Points
from meanfield.spectrum import effective_rank

from ._architecture import hidden_states, read
from ._assembly import embed, layers
from .blocks import Parts
from .checkpoint import Checkpoint

_States = Float[np.ndarray, "n d"]


class Depth(NamedTuple):
    r"""Compares the states $x$ of the network and $z$ of the flow after some layers.

    A number that is not defined is NaN.

    Attributes:
        layers: the number of layers passed; 0 at the embedding, where both start.
        distance: $|z - x| / |x|$, with norms over all tokens.
        initial_distance: $|x_0 - x| / |x|$, the same distance for the initial tokens.
        cosine: the cosine of $z - x_0$ and $x - x_0$, over all tokens and coordinates.
        network_rank: the effective rank of the covariance of $x$.
        flow_rank: the effective rank of the covariance of $z$.
        network_similarity: the mean cosine over all pairs of distinct tokens of $x$.
        flow_similarity: the mean cosine over all pairs of distinct tokens of $z$.

    Examples:
        >>> from meanfield import models
        >>> both = models.compare(models.load("minilm"), "Alice was tired.", rtol=1e-2)
        >>> both.depths[0].distance, both.depths[6].layers
        (0.0, 6)
    """

    layers: int
    distance: float
    initial_distance: float
    cosine: float
    network_rank: float
    flow_rank: float
    network_similarity: float
    flow_similarity: float


class Shares(NamedTuple):
    r"""How much each part of a layer contributes to the displacement of the states.

    The share of a part $p$ of the displacement $\Delta$ is
    $\langle p, \Delta \rangle / |\Delta|^2$. Shares sum to one; a part with a
    negative share works against the displacement.

    Attributes:
        layer: the layer, counted from zero.
        displacement: $|\Delta| / |x|$, where $x$ are the states that enter the layer.
        attention: the share of the attention block.
        mlp: the share of the MLP.
        norm: the share of the LayerNorms.
        attention_cosine: the cosine of the output of the attention block and $\Delta$.

    Examples:
        >>> from meanfield import models
        >>> both = models.compare(models.load("minilm"), "Alice was tired.", rtol=1e-2)
        >>> first = both.shares[0]
        >>> round(first.attention + first.mlp + first.norm, 6)
        1.0
    """

    layer: int
    displacement: float
    attention: float
    mlp: float
    norm: float
    attention_cosine: float


@final
@dataclass(frozen=True)
class Comparison:
    """Comparison of the flow of a network's attention with the network's own states.

    Attributes:
        words: the tokens of the text, as strings.
        depths: the comparison at the embedding, and after each layer.
        shares: for each layer, how much each of its parts contributes.
        endings: how the flow ended in each layer, up to the first failure.

    Examples:
        >>> from meanfield import models
        >>> both = models.compare(models.load("minilm"), "Alice was tired.", rtol=1e-2)
        >>> len(both.words), len(both.depths), len(both.shares), set(both.endings)
        (6, 7, 6, {'finished'})
    """

    words: tuple[str, ...]
    depths: tuple[Depth, ...]
    shares: tuple[Shares, ...]
    endings: tuple[str, ...]

    def dataset(self) -> xr.Dataset:
        """A dataset with the numbers in `depths` and `shares`.

        Its dimensions are `depth` and `layer`.
        """
        columns = {"depth": self.depths, "layer": self.shares}
        return xr.Dataset(
            {
                name: (axis, [getattr(row, name) for row in rows])
                for axis, rows in columns.items()
                for name in rows[0]._fields[1:]
            },
            {axis: [row[0] for row in rows] for axis, rows in columns.items()},
        )


def compare(
    checkpoint: Checkpoint,
    text: str,
    *,
    rtol: float | None = None,
    dtype: DTypeLike | None = None,
    report: Callable[[int], None] | None = None,
) -> Comparison:
    """Compares the forward pass of a network with the flow of its attention.

    Args:
        checkpoint: the network.
        text: one text.
        rtol: the relative tolerance of the flow; the default of `adaptive` if `None`.
        dtype: single or double precision of the flow; JAX's default if `None`.
        report: called with the number of each layer before its flow begins.

    Raises:
        InputFileError: if a file is missing or damaged, or the config names an
            unknown activation.
        InvalidInputError: if the text has more tokens than the network has positions.
        PrecisionError: if `dtype` is double but JAX computes in single precision.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from meanfield import models
        >>> both = models.compare(models.load("minilm"), "Alice was tired.", rtol=1e-2)
        >>> last = both.depths[-1]
        >>> last.distance > last.initial_distance  # farther off than the embedding
        True
    """
    tokens, words = embed(checkpoint, text, dtype=dtype)
    states, parts = hidden_states(checkpoint, text)
    endings: list[str] = []
    depths = [_depth(0, states, states[0])]
    clouds = _flow_layers(checkpoint, tokens.x, rtol, report)
    for number, (z, ending) in enumerate(clouds, start=1):
        endings.append(ending)
        depths.append(_depth(number, states, z))
    nan_states = np.full_like(states[0], np.nan)
    depths += [_depth(k, states, nan_states) for k in range(len(depths), len(states))]
    shares = tuple(map(_shares, range(len(parts)), states, parts))
    return Comparison(words, tuple(depths), shares, tuple(endings))


def _flow_layers(
    checkpoint: Checkpoint,
    x: Float[Array, "n d"],
    rtol: float | None,
    report: Callable[[int], None] | None,
) -> Iterator[tuple[_States, str]]:
    """Yields the flow's states and ending after each layer, until a layer fails."""
    mu = Points.uniform(x)
    for layer in range(read(checkpoint).sizes.n_layers):
        if report is not None:
            report(layer)
        # Each layer has its own flow. All flows share one compiled program, and no step
        # spans two layers.
        dynamics = layers(checkpoint, layers=layer, dtype=x.dtype)
        run = flow(dynamics, mu, [0.0, 1.0], stepping=adaptive(rtol=rtol))
        if run.status.is_failure:
            yield np.full(x.shape, np.nan), run.status.ending
            return
        mu = run.final
        yield np.asarray(mu.tokens.x, np.float64), run.status.ending


def _depth(number: int, states: Float[np.ndarray, "l n d"], z: _States) -> Depth:
    start, x = states[0], states[number]
    size = np.linalg.norm(x)
    return Depth(
        layers=number,
        distance=float(np.linalg.norm(z - x) / size),
        initial_distance=float(np.linalg.norm(start - x) / size),
        cosine=_cosine(z - start, x - start),
        network_rank=_rank(x),
        flow_rank=_rank(z),
        network_similarity=_similarity(x),
        flow_similarity=_similarity(z),
    )


def _shares(layer: int, x: _States, parts: Parts) -> Shares:
    change = parts.displacement
    share = lambda part: float(np.vdot(part, change) / np.vdot(change, change))
    return Shares(
        layer=layer,
        displacement=float(np.linalg.norm(change) / np.linalg.norm(x)),
        attention=share(parts.attention),
        mlp=share(parts.mlp),
        norm=share(parts.norm),
        attention_cosine=_cosine(parts.attention, change),
    )


def _cosine(a: _States, b: _States) -> float:
    """The cosine of two displacements; NaN if either is zero."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.vdot(a, b) / size) if size != 0 else np.nan


def _rank(x: _States) -> float:
    if not np.isfinite(x).all():
        return np.nan
    deviations = x - x.mean(axis=0)
    return float(effective_rank(np.linalg.svd(deviations, compute_uv=False) ** 2))


def _similarity(x: _States) -> float:
    """The mean cosine over all pairs of distinct tokens; NaN for a single token."""
    n = len(x)
    if n == 1:
        return np.nan
    directions = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return float((np.square(np.linalg.norm(directions.sum(0))) - n) / (n * (n - 1)))
