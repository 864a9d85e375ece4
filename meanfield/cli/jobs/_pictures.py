"""Parts shared by `plot` and `animate`: the dataset to draw, and its style."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meanfield import plotting, runs
from meanfield._reading import missing_file_error
from meanfield.cli.jobs._texts import add_word_labels
from meanfield.cli.options._looks import look_of
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import RunSpec

if TYPE_CHECKING:
    import xarray


MIN_FRAMES = 12  # with fewer frames before a blow-up, a hint is printed


class Request(NamedTuple):
    """Style of a picture, and the file of labels that colour the tokens, if any."""

    look: "plotting.Look"
    labels: Path | None


def parse_request(options: Mapping[str, Any]) -> Request:
    """The style that the options describe; `--colour @FILE` names a file of labels.

    Raises:
        InvalidInputError: if a value is invalid.
    """
    colour = options.get("colour")
    if colour is None or not colour.startswith("@"):
        return Request(look_of(options), None)
    return Request(look_of({**options, "colour": "label"}), Path(colour[1:]))


def check_not_comparison(run: Path) -> None:
    """Raises if the folder holds a comparison.

    Raises:
        InvalidInputError: with the command that draws a comparison.
    """
    if runs.is_comparison(run):
        first = next(iter(sorted(run.glob("*.zarr"))), run / "points.zarr")
        raise InvalidInputError(
            f"`{run}` is a comparison: draw it with `meanfield report {run}`, or draw "
            f"one of its runs, such as `{first}`."
        )


def open_dataset(run: Path, request: Request) -> "xarray.Dataset":
    """The dataset of a run or a sweep, with labels or words of its tokens.

    Raises:
        InputFileError: if there is no run, or the file of labels cannot be read.
        InvalidInputError: if there is not one label for each token.
    """
    if runs.is_sweep(run):
        if request.labels is not None:
            raise InvalidInputError(
                f"`{run}` is a sweep, whose picture has no tokens to colour by "
                f"`{request.labels}`: leave out `--colour`."
            )
        return runs.sweep_dataset(run)
    data = runs.dataset(run)
    if request.labels is not None:
        return _add_labels(data, request.labels)
    return add_word_labels(run, data, "picture")


def _add_labels(data: "xarray.Dataset", file: Path) -> "xarray.Dataset":
    """The dataset with a label for each token, read from a .npy file."""
    try:
        labels = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise missing_file_error(file) from None
    except (OSError, ValueError, EOFError) as error:
        raise InputFileError(
            f"`{file}` is not a .npy file of labels: {error}. Use `numpy.save`."
        ) from None
    if not isinstance(labels, np.ndarray):
        labels.close()
        raise InputFileError(f"`{file}` is an archive; give one array, as .npy.")
    n = data.sizes.get("token")
    if labels.shape != (n,):
        reason = "this run has no tokens" if n is None else f"there are {n} tokens"
        raise InvalidInputError(
            f"`{file}` must hold one label for each token; the shape of its array is "
            f"{labels.shape}, and {reason}."
        )
    return data.assign_coords(word=("token", np.char.mod("%s", labels)))


def add_tokens(data: "xarray.Dataset", tokens: Path | None) -> "xarray.Dataset":
    """The dataset, with the tokens of another run if `tokens` is given."""
    if tokens is None:
        return data
    return plotting.with_tokens(data, runs.dataset(tokens))


def stem(run: Path) -> str:
    """Stem of the files made from a run: the name of its folder without `.zarr`."""
    return run.absolute().name.removesuffix(".zarr")


def frames_hint(spec: RunSpec | None, n_stored: int, t_star: float) -> str:
    """Advice to store more frames before a blow-up; empty if there are enough.

    Args:
        spec: spec of the run, if it has one.
        n_stored: number of stored frames, including the one at the final time.
        t_star: time of the blow-up; NaN if there is none.
    """
    if spec is None or spec.times is not None or spec.is_family:
        return ""
    n_frames = n_stored - 1
    if not math.isfinite(t_star) or n_frames >= min(MIN_FRAMES, spec.frames - 1):
        return ""
    return (
        f"only {n_frames} of {spec.frames} lie before t*; for more run it again with "
        f"--t {1.02 * t_star:.3g}"
    )
