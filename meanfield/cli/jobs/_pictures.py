"""What `plot` and `animate` share: the dataset that is drawn, in the look chosen."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meanfield import plotting, runs
from meanfield._reading import absent
from meanfield.cli.jobs._words import worded
from meanfield.cli.options._looks import look_of
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import RunSpec

if TYPE_CHECKING:
    import xarray


FEW = 12  # frames of a blow-up below which a command says how to have more


class Request(NamedTuple):
    """The look that was asked for, and the file of labels that its colours name."""

    look: "plotting.Look"
    labels: Path | None


def requested(options: Mapping[str, Any]) -> Request:
    """What options ask for; `--colour @FILE` colours by the labels in a file.

    Raises:
        InvalidInputError: if a value does not work.
    """
    colour = options.get("colour")
    if colour is None or not colour.startswith("@"):
        return Request(look_of(options), None)
    return Request(look_of({**options, "colour": "label"}), Path(colour[1:]))


def refuse_comparison(run: Path) -> None:
    """Refuses a folder of several runs that were compared.

    Raises:
        InvalidInputError: saying what draws it.
    """
    if runs.is_comparison(run):
        first = next(iter(sorted(run.glob("*.zarr"))), run / "points.zarr")
        raise InvalidInputError(
            f"`{run}` is a comparison: `meanfield report {run}` draws it; a picture is "
            f"of one of its runs, such as `{first}`."
        )


def opened(run: Path, request: Request) -> "xarray.Dataset":
    """A run, or a sweep, with the labels and words of its tokens.

    Raises:
        InputFileError: if there is no run, or the file of labels cannot be read.
        InvalidInputError: if there is not one label for each token.
    """
    if runs.is_sweep(run):
        if request.labels is not None:
            raise InvalidInputError(
                f"`{run}` is a sweep, whose picture has no tokens to label by "
                f"`{request.labels}`: leave out `--colour`."
            )
        return runs.sweep_dataset(run)
    data = runs.dataset(run)
    if request.labels is not None:
        return _labelled(data, request.labels)
    return worded(run, data, "picture")


def _labelled(data: "xarray.Dataset", file: Path) -> "xarray.Dataset":
    """The tokens with the labels in a file, numbers or words."""
    try:
        labels = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise absent(file) from None
    except (OSError, ValueError, EOFError) as error:
        raise InputFileError(
            f"`{file}` is no .npy file of labels: {error}; write one by `numpy.save`."
        ) from None
    if not isinstance(labels, np.ndarray):
        labels.close()
        raise InputFileError(f"`{file}` is an archive; give one array, as .npy.")
    n = data.sizes.get("token")
    if labels.shape != (n,):
        what = "this run has no tokens" if n is None else f"there are {n} tokens"
        raise InvalidInputError(
            f"`{file}` must hold one label for each token; it has the shape "
            f"{labels.shape}, and {what}."
        )
    return data.assign_coords(word=("token", np.char.mod("%s", labels)))


def carrying(data: "xarray.Dataset", tokens: Path | None) -> "xarray.Dataset":
    """The dataset itself, or with the tokens of another run."""
    if tokens is None:
        return data
    return plotting.with_tokens(data, runs.dataset(tokens))


def stem(run: Path) -> str:
    """What files of a run are named after."""
    return run.absolute().name.removesuffix(".zarr")


def more_frames(spec: RunSpec | None, stored: int, t_star: float) -> str:
    """What to do for more frames of a run that stored so many; empty if it has enough.

    Args:
        spec: of the run, if it has one.
        stored: frames of the run, the last of which is where it ended.
        t_star: its time; NaN if there is none.
    """
    if spec is None or spec.times is not None or spec.is_family:
        return ""
    kept = stored - 1
    if not math.isfinite(t_star) or kept >= min(FEW, spec.frames - 1):
        return ""
    return (
        f"{kept} of {spec.frames} lie before t*, too few to see it by: run it again "
        f"with --t {1.02 * t_star:.3g}"
    )
