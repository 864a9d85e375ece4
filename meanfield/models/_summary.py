"""Summaries of checkpoints: sizes, files, and the spectra of each head."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from ._architecture import Sizes, classes, model_type, read
from .blocks import HeadSpectra, spectra
from .checkpoint import CONFIG, TOKENIZER, WEIGHTS, Checkpoint


@final
@dataclass(frozen=True)
class Summary:
    r"""The summary that `models inspect` prints; `dataclasses.asdict` gives JSON.

    Attributes:
        folder: the folder of the files.
        model_type: the registered name of the architecture.
        architectures: the classes that the config names.
        sizes: the sizes of the network, by the names of `Sizes`.
        epsilon: the scale of the scores, $\sqrt{d_k}$.
        dtype: number of arrays of each dtype in the weights file.
        n_parameters: number of floating-point entries in the weights file.
        files: sizes of the existing files, in bytes.
        score_norms: spectral norms $\|Q_h^\top K_h\|/\epsilon$, by layer and head.
        value_norms: spectral norms $\|V_h\|$, by layer and head.
        heads: the spectra of each head, layer after layer.

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
    heads: tuple[HeadSpectra, ...]


def inspect(
    checkpoint: Checkpoint, *, report: Callable[[int], None] | None = None
) -> Summary:
    """Summarises a checkpoint; reads every attention matrix once.

    Args:
        checkpoint: the network.
        report: called with the number of each layer before it is read.

    Raises:
        InputFileError: if a file is missing, damaged or of an unknown architecture.

    Examples:
        >>> from meanfield import models
        >>> models.inspect(models.load("minilm")).sizes["dimension"]
        384
    """
    network = read(checkpoint)
    sizes: Sizes = network.sizes
    heads: list[HeadSpectra] = []
    for layer in range(sizes.n_layers):
        if report is not None:
            report(layer)
        heads += spectra(layer, network.heads(layer))
    return Summary(
        folder=str(checkpoint.folder),
        model_type=model_type(checkpoint),
        architectures=classes(checkpoint),
        sizes=sizes._asdict(),
        epsilon=float(np.sqrt(sizes.head_dimension)),
        dtype=_dtypes(checkpoint),
        n_parameters=_n_parameters(checkpoint),
        files=_files(checkpoint),
        score_norms=_group_by_layer(heads, "score_norm", sizes.n_heads),
        value_norms=_group_by_layer(heads, "value_norm", sizes.n_heads),
        heads=tuple(heads),
    )


def _group_by_layer(
    heads: list[HeadSpectra], name: str, n_heads: int
) -> tuple[tuple[float, ...], ...]:
    values = [getattr(head, name) for head in heads]
    return tuple(tuple(values[i : i + n_heads]) for i in range(0, len(values), n_heads))


def _dtypes(checkpoint: Checkpoint) -> dict[str, int]:
    dtypes = [entry.dtype for entry in checkpoint.entries.values()]
    return {name: dtypes.count(name) for name in sorted(set(dtypes))}


def _n_parameters(checkpoint: Checkpoint) -> int:
    entries = checkpoint.entries.values()
    return sum(
        int(np.prod(entry.shape)) for entry in entries if "F" in entry.dtype.upper()
    )


def _files(checkpoint: Checkpoint) -> dict[str, int]:
    paths = [checkpoint.folder / name for name in (WEIGHTS, CONFIG, TOKENIZER)]
    return {path.name: path.stat().st_size for path in paths if path.is_file()}
