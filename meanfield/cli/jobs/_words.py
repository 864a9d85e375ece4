"""The words of the tokens of a run, where its text and its model are still there."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    import xarray

# The text, the model or what reads it has gone, or is not what it was.
_GONE = (InputFileError, InvalidInputError, UnsupportedError)


def worded(
    run: Path,
    data: "xarray.Dataset",
    what: str,
    tell: Callable[[str], None] = note,
) -> "xarray.Dataset":
    """The dataset of a run with the words of its tokens; without them, `tell` says why.

    Args:
        run: the folder of the run.
        data: its dataset.
        what: has no words then: `picture` or `page`. The dataset has the sentence as
            its attribute `wordless`.
        tell: takes the sentence.
    """
    from meanfield import runs

    try:
        return runs.with_words(run, data)
    except _GONE as error:
        sentence = f"the {what} has no words: {error}"
        tell(sentence)
        return data.assign_attrs(wordless=sentence)
