"""Distances of stored runs: their table, record and picture."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield import plotting, runs
from meanfield._writing import writing
from meanfield.cli.options._options import flag
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import note, number, print_json, print_rows
from meanfield.errors import InvalidInputError

from ._joint_pictures import expand, open_runs
from ._pictures import Request

if TYPE_CHECKING:
    import xarray

OWN_KEYS = "stored runs have their own keys"
N_TIMES = 6  # number of times in the table, for each pair of runs


def are_runs(files: Sequence[Path]) -> bool:
    """Whether the arguments of `compare` are stored runs, and not a file of keys."""
    return len(files) > 1 or any(file.is_dir() for file in files)


def compare_runs(
    folders: Sequence[Path],
    options: Mapping[str, Any],
    *,
    out: Path | None,
    json: bool,
    plugins: list[Path] | None,
) -> None:
    """Prints the distances of stored runs, and writes them to the folder `out`.

    Raises:
        InvalidInputError: if a key of the spec is given, since the runs have theirs, or
            if the folder has distances.
    """
    for name, value in options.items():
        if value not in (None, False):
            raise InvalidInputError(f"Leave out `{flag(name)}`: {OWN_KEYS}.")
    if out is not None and (out / "distances.json").exists():
        raise InvalidInputError(
            f"`{out}` has distances, which are not replaced: name another folder."
        )
    paths = expand(folders, "compare")
    open_session("double")
    labels = open_runs(paths, Request(plotting.Look(), None), plugins)
    with RunProgress("distances", "reading") as bar:
        data = runs.distances(dict(zip(labels, paths, strict=True)), bar.show)
    if json:
        print_json({"out": None if out is None else str(out), **data.to_dict()})
    else:
        _print(data)
    if out is None:
        note("add --out FOLDER for the picture and the numbers")
    else:
        _write(data, out, paths)


def _write(data: "xarray.Dataset", folder: Path, paths: Sequence[Path]) -> None:
    from meanfield.runs.comparisons._record import write_distances

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    picture = plotting.save(plotting.draw_distances(data), folder / "distances")
    for file in (write_distances(folder, data, paths), *picture):
        note(f"wrote {file}")


def _print(data: "xarray.Dataset") -> None:
    times = np.linspace(0, data.sizes["time"] - 1, N_TIMES).astype(int)
    frames = data.isel(time=np.unique(times))
    pairs = product(frames["pair"].values, frames["time"].values)
    print_rows([_row(frames.sel(pair=pair, time=t)) for pair, t in pairs])
    methods = ", ".join(dict.fromkeys(data.attrs["methods"]))
    note(f"W₂: {methods}; Sinkhorn divergence: ε = {data.attrs['epsilon']:.3g}")
    for text in data.attrs["notes"]:
        note(text)


def _row(distances: "xarray.Dataset") -> dict[str, str]:
    """Table row of one pair of runs at one time."""
    return {
        "pair": str(distances["pair"].item()),
        "t": number(float(distances["time"]), 4),
        "W₂": _number_and_error(distances, "wasserstein"),
        "sliced W₂": _number_and_error(distances, "sliced"),
        "moments (Bures)": number(float(distances["bures"]), 3),
        "Sinkhorn divergence": number(float(distances["sinkhorn_divergence"]), 3),
    }


def _number_and_error(row: "xarray.Dataset", name: str) -> str:
    error = float(row[f"{name}_error"])
    value = number(float(row[name]), 3)
    return f"{value} ± {number(error, 1)}" if error > 0 else value
