"""The recorded words and layers of a run of a model, without importing JAX."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield import models
from meanfield.storage import RunStore

from ._validation import raise_damaged

if TYPE_CHECKING:
    import xarray

_WORDS, _DEPTH = "words", "n_layers"
_MAX_LAYERS = 1_000_000  # sanity bound on a recorded number of layers
_LAYER_LONG_NAME = "layer of the model that acts from this time on, or that acted last"


def vocabulary(
    model: str | None, text: str | None, source: str | None
) -> dict[str, Any]:
    """Attributes to record for a model's run, so that it opens without the model.

    They are the number of layers of the model, and the words of the tokens. Words come
    from the text, or from the record of the run that this run starts from.

    Raises:
        InputFileError: if the text or the model cannot be read.
        UnsupportedError: if the extra `models` is not installed.
    """
    if model is None:
        return {}
    checkpoint = models.load(model)
    sizes = models.read(checkpoint).sizes
    if text is not None:
        content = models.resolve_text(text)
        words = checkpoint.encode(content, limit=sizes.max_positions).words
        return {_DEPTH: sizes.n_layers, _WORDS: list(words)}
    record = {} if source is None else RunStore.open(source).attrs
    words = {_WORDS: record[_WORDS]} if _WORDS in record else {}
    return {_DEPTH: sizes.n_layers, **words}


def add_vocabulary(
    path: Path, layers: Sequence[int] | None, data: "xarray.Dataset"
) -> "xarray.Dataset":
    """The dataset of a model's run with the coordinates `word` and `layer`.

    A run stored by an older version has no words; `add_word_coordinate` adds them.

    Args:
        path: the folder of the run.
        layers: the layers of the model that act; all if `None`.
        data: the frames of the run.

    Raises:
        StoreError: if the recorded words are damaged.
    """
    words, depth = data.attrs.pop(_WORDS, None), data.attrs.get(_DEPTH)
    numbers = _layers(layers, data["time"].values, depth)
    attrs = {"long_name": _LAYER_LONG_NAME}
    data = data.assign_coords(layer=("time", numbers, attrs))
    if words is None or "token" not in data.dims:
        return data
    is_text_list = isinstance(words, list) and all(isinstance(w, str) for w in words)
    if not is_text_list or len(words) != data.sizes["token"]:
        raise_damaged(path, "its `words` are not one for each token")
    return data.assign_coords(word=("token", np.array(words)))


def _layers(
    layers: Sequence[int] | None, times: np.ndarray, depth: object
) -> np.ndarray:
    """The index of the layer that acts at each time; a layer acts for a unit of time.

    The end of the run has the index of the layer that acted last.
    """
    finite_times = np.nan_to_num(times)
    max_layers = (
        depth if isinstance(depth, int) and 0 < depth <= _MAX_LAYERS else _MAX_LAYERS
    )
    count = int(np.clip(np.ceil(finite_times[-1]), 1, max_layers))
    numbers = np.array(layers or range(count))[:count]
    return numbers[np.clip(np.floor(finite_times), 0, len(numbers) - 1).astype(int)]
