"""The words of a text that was moved, also of a run that recorded none; without JAX."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanfield import models
from meanfield.errors import InvalidInputError
from meanfield.storage import RunStore

from ._inputs import Inputs
from ._stored import stored_spec

if TYPE_CHECKING:
    import xarray


def with_words(path: Path, data: "xarray.Dataset") -> "xarray.Dataset":
    """The dataset of the run at `path`, with the words of its tokens if it has a text.

    They are the coordinate `word`, as the tokenizer of the model cuts them; the
    attribute `n_layers` says how many layers the model has. Only what an older version
    stored, without its words, is read with its text and its model once more.

    Raises:
        InputFileError: if the text or the tokenizer is not what it was, or is missing.
        InvalidInputError: if the text has other tokens now.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 5, "d": 2, "A": -1.0, "t": 0.1, "frames": 2}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> data = runs.dataset(Path("run.zarr"))
        >>> "word" in runs.with_words(Path("run.zarr"), data)  # a run without a text
        False
    """
    store = RunStore.open(path)
    spec = stored_spec(store)
    if "word" in data or spec.text is None or "token" not in data.dims:
        return data
    Inputs.of(spec).check_start(store.attrs.get("inputs"))
    checkpoint = models.load(str(spec.model))
    words = checkpoint.encode(
        models.text_in(spec.text), limit=data.sizes["token"]
    ).words
    if len(words) != data.sizes["token"]:
        raise InvalidInputError(
            f"The text of `{path}` has {len(words)} tokens now and had "
            f"{data.sizes['token']}: bring back what it was."
        )
    n_layers = models.read(checkpoint).sizes.n_layers
    named = data.assign_coords(word=("token", np.array(words)))
    return named.assign_attrs(n_layers=n_layers)
