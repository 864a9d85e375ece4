"""The words of a run's tokens, even if not recorded, without importing JAX."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield import models
from meanfield.errors import InvalidInputError
from meanfield.storage import RunStore

from ._inputs import Inputs
from ._validation import load_spec

if TYPE_CHECKING:
    import xarray


def add_word_coordinate(path: Path, data: "xarray.Dataset") -> "xarray.Dataset":
    """The dataset of the run at `path`, with the words of its tokens if it has a text.

    The coordinate `word` holds the words, as cut by the tokenizer of the model; the
    attribute `n_layers` is the model's number of layers. For a run that an older
    version stored without words, the text is tokenized again.

    Raises:
        InputFileError: if the text or the tokenizer has changed or is missing.
        InvalidInputError: if the text has a different number of tokens now.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 5, "d": 2, "A": -1.0, "t": 0.1, "frames": 2}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> data = runs.dataset(Path("run.zarr"))
        >>> "word" in runs.add_word_coordinate(Path("run.zarr"), data)  # no text
        False
    """
    store = RunStore.open(path)
    spec = load_spec(store)
    if "word" in data or spec.text is None or "token" not in data.dims:
        return data
    Inputs.from_spec(spec).check_start(store.attrs.get("inputs"))
    checkpoint = models.load(str(spec.model))
    text = models.resolve_text(spec.text)
    words = checkpoint.encode(text, limit=data.sizes["token"]).words
    if len(words) != data.sizes["token"]:
        raise InvalidInputError(
            f"The text of the run `{path}` now has {len(words)} tokens, but had "
            f"{data.sizes['token']} when the run began: restore the old text."
        )
    n_layers = models.read(checkpoint).sizes.n_layers
    dataset = data.assign_coords(word=("token", np.array(words)))
    return dataset.assign_attrs(n_layers=n_layers)
