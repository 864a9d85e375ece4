"""Several runs of one command: their folders, labels and datasets."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield import plotting, runs
from meanfield.cli.process._plugins import load_measure_of
from meanfield.errors import InvalidInputError

from ._pictures import Request, open_dataset, stem

if TYPE_CHECKING:
    import xarray

MAX_STEMS = 3  # largest number of names of runs in the name of a picture


def expand(folders: Sequence[Path], command: str) -> list[Path]:
    """The folders of runs and sweeps, with the runs of a comparison in its place.

    Args:
        folders: the folders that `command` was given.
        command: name of the command, for messages.

    Raises:
        InvalidInputError: if there is none, one is given twice, or one of several is a
            sweep.
    """
    paths: list[Path] = []
    for folder in folders:
        paths += runs.compared_runs(folder) or [folder]
    if not paths:
        raise InvalidInputError(f"`{command}` needs a run, such as first.zarr.")
    duplicates = [path for path, count in Counter(paths).items() if count > 1]
    if duplicates:
        raise InvalidInputError(f"Give each run once; got `{duplicates[0]}` twice.")
    sweeps = [path for path in paths if runs.is_sweep(path)]
    if sweeps and len(paths) > 1:
        raise InvalidInputError(
            f"`{command}` takes several runs, but `{sweeps[0]}` is a sweep: leave it "
            "out, or draw it alone."
        )
    return paths


def open_runs(
    paths: Sequence[Path], request: Request, plugins: list[Path] | None
) -> "dict[str, xarray.Dataset]":
    """The datasets of runs, by labels of the keys in which they differ."""
    for path in paths:
        load_measure_of(path, plugins)
    stems = [stem(path) for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    datasets = [open_dataset(path, request) for path in paths]
    return plotting.label_runs(dict(zip(names, datasets, strict=True)))


def joint_name(paths: Sequence[Path]) -> str:
    """Stem of the files made from several runs, such as `softmax-l2`."""
    stems = [stem(path) for path in paths]
    if len(stems) > MAX_STEMS:
        stems = [stems[0], f"and-{len(stems) - 1}-more"]
    return "-".join(stems)
