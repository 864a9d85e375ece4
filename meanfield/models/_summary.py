"""A checkpoint at a glance: sizes, files, and how strong each head is."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from ._architecture import Sizes, classes, model_type, read
from ._weights import HeadWeights
from .checkpoint import CONFIG, TOKENIZER, WEIGHTS, Checkpoint


@final
@dataclass(frozen=True)
class Summary:
    r"""What `models inspect` prints; `dataclasses.asdict` of it is ready for JSON.

    Attributes:
        folder: where the files are.
        model_type: the architecture's registered name.
        architectures: the classes that the config names.
        sizes: the sizes of the network, by the names of `Sizes`.
        epsilon: the scale of the scores, $\sqrt{d_k}$.
        dtype: dtypes in the weights file, with the number of arrays of each.
        n_parameters: entries in the weights file, those of integers not counted.
        files: sizes in bytes of the files that are there.
        score_norms: $\|Q_h^\top K_h\|/\epsilon$ by layer and head, spectral norm.
        value_norms: $\|V_h\|$ by layer and head, spectral norm.

    Examples:
        >>> from meanfield import models
        >>> summary = models.inspect(models.load("minilm"))
        >>> summary.model_type, len(summary.score_norms), len(summary.score_norms[0])
        ('bert', 6, 12)
    """

    folder: str
    model_type: str
    architectures: tuple[str, ...]
    sizes: dict[str, int]
    epsilon: float
    dtype: dict[str, int]
    n_parameters: int
    files: dict[str, int]
    score_norms: tuple[tuple[float, ...], ...]
    value_norms: tuple[tuple[float, ...], ...]


def inspect(checkpoint: Checkpoint) -> Summary:
    """The summary of a checkpoint; reads every attention matrix once.

    Raises:
        InputFileError: if a file is missing, damaged or of an unknown architecture.

    Examples:
        >>> from meanfield import models
        >>> models.inspect(models.load("minilm")).sizes["dimension"]
        384
    """
    network = read(checkpoint)
    sizes: Sizes = network.sizes
    score_norms, value_norms = [], []
    for layer in range(sizes.n_layers):
        weights = network.heads(layer)
        score_norms.append(_score_norms(weights))
        value_norms.append(_value_norms(weights))
    return Summary(
        folder=str(checkpoint.folder),
        model_type=model_type(checkpoint),
        architectures=classes(checkpoint),
        sizes=sizes._asdict(),
        epsilon=float(np.sqrt(sizes.head_dimension)),
        dtype=_dtypes(checkpoint),
        n_parameters=_n_parameters(checkpoint),
        files=_files(checkpoint),
        score_norms=tuple(score_norms),
        value_norms=tuple(value_norms),
    )


def _score_norms(weights: HeadWeights) -> tuple[float, ...]:
    tall = np.swapaxes(weights.Q, -1, -2)
    return tuple((_product_norms(tall, weights.K) / weights.epsilon).tolist())


def _value_norms(weights: HeadWeights) -> tuple[float, ...]:
    return tuple(_product_norms(weights.writing, weights.reading).tolist())


def _product_norms(
    tall: Float[np.ndarray, "h d k"], wide: Float[np.ndarray, "h k d"]
) -> Float[np.ndarray, " h"]:
    # Orthonormal factors leave the norm alone, so d x d products are never formed.
    R = np.linalg.qr(tall, mode="r")
    S = np.linalg.qr(np.swapaxes(wide, -1, -2), mode="r")
    return np.linalg.norm(R @ np.swapaxes(S, -1, -2), ord=2, axis=(-2, -1))


def _dtypes(checkpoint: Checkpoint) -> dict[str, int]:
    found = [entry.dtype for entry in checkpoint.entries.values()]
    return {name: found.count(name) for name in sorted(set(found))}


def _n_parameters(checkpoint: Checkpoint) -> int:
    entries = checkpoint.entries.values()
    return sum(
        int(np.prod(entry.shape)) for entry in entries if "F" in entry.dtype.upper()
    )


def _files(checkpoint: Checkpoint) -> dict[str, int]:
    paths = [checkpoint.folder / name for name in (WEIGHTS, CONFIG, TOKENIZER)]
    return {path.name: path.stat().st_size for path in paths if path.is_file()}
