"""The words and the layers of a model's run, as it records them; without JAX."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield import models
from meanfield.storage import RunStore

from ._stored import refuse

if TYPE_CHECKING:
    import xarray

_WORDS, _DEPTH = "words", "n_layers"
_MOST = 1_000_000  # layers that a record may tell of
_OF_LAYER = "layer of the model that acts from this time on, or that acted last"


def vocabulary(
    model: str | None, text: str | None, source: str | None
) -> dict[str, Any]:
    """What a run of a model records, so that it can be read without the model.

    They are the number of the model's layers, and the words of the tokens: those of
    the text, or of the run that it starts from.

    Raises:
        InputFileError: if the text or the model cannot be read.
        UnsupportedError: if the extra `models` is not installed.
    """
    if model is None:
        return {}
    checkpoint = models.load(model)
    sizes = models.read(checkpoint).sizes
    if text is not None:
        words = checkpoint.encode(models.text_in(text), limit=sizes.max_positions).words
        return {_DEPTH: sizes.n_layers, _WORDS: list(words)}
    record = {} if source is None else RunStore.open(source).attrs
    words = {_WORDS: record[_WORDS]} if _WORDS in record else {}
    return {_DEPTH: sizes.n_layers, **words}


def with_vocabulary(
    path: Path, chosen: Sequence[int] | None, data: "xarray.Dataset"
) -> "xarray.Dataset":
    """The dataset of a model's run with the coordinates `word` and `layer`.

    A run of an older version has no words of its own: `with_words` reads its text.

    Args:
        path: of the run.
        chosen: the layers of the model that act, if not all.
        data: of the run.

    Raises:
        StoreError: if what was recorded is no such thing.
    """
    words, depth = data.attrs.pop(_WORDS, None), data.attrs.get(_DEPTH)
    layer = (
        "time",
        _layers(chosen, data["time"].values, depth),
        {"long_name": _OF_LAYER},
    )
    data = data.assign_coords(layer=layer)
    if words is None or "token" not in data.dims:
        return data
    are_words = isinstance(words, list) and all(isinstance(w, str) for w in words)
    if not are_words or len(words) != data.sizes["token"]:
        refuse(path, "its `words` are not one for each token")
    return data.assign_coords(word=("token", np.array(words)))


def _layers(
    chosen: Sequence[int] | None, times: np.ndarray, depth: object
) -> np.ndarray:
    """The number of the layer that acts at each time; each has a unit of it.

    At the end it is the one that acted last, as the next is not asked any more.
    """
    passed = np.nan_to_num(times)
    most = depth if isinstance(depth, int) and 0 < depth <= _MOST else _MOST
    count = int(np.clip(np.ceil(passed[-1]), 1, most))
    numbers = np.array(chosen or range(count))[:count]
    return numbers[np.clip(np.floor(passed), 0, len(numbers) - 1).astype(int)]
