"""Records of comparisons and distances, and their datasets, without importing JAX."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield._stored_names import rename_keys
from meanfield.errors import StoreError
from meanfield.storage.disk import (
    alteration_message,
    read_object,
    replace_text,
    unreadable_error,
)

if TYPE_CHECKING:
    import xarray

RECORD = "comparison.json"
DISTANCES = "distances.json"
_GAPS = ("mean_gap", "covariance_gap", "distance", "distance_error")
_TOLERANCES = ("mean_tolerance", "covariance_tolerance")


def is_comparison(path: Path) -> bool:
    """Whether a folder holds a stored comparison.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs
        >>> runs.is_comparison(Path("nothing"))
        False
    """
    return (path / RECORD).exists()


def write_comparison(folder: Path, comparison: Mapping[str, Any]) -> Path:
    """Writes the JSON values of a comparison into a folder and returns the file.

    Raises:
        ResourceError: if it cannot be written.
    """
    text = json.dumps(comparison, indent=1, ensure_ascii=False)
    replace_text(folder / RECORD, f"{text}\n")
    return folder / RECORD


def comparison_dataset(path: Path) -> "xarray.Dataset":
    """The gaps of a stored comparison, with the spec of each measure.

    Raises:
        InputFileError: if the comparison cannot be read.
        StoreError: if the comparison is damaged.
    """
    record = path / RECORD
    try:
        content = rename_keys("comparison", read_object(record))
    except FileNotFoundError as error:
        raise unreadable_error(record, error) from error
    try:
        return gaps_dataset(content["pairs"]).assign_attrs(spec=content["spec"])
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(alteration_message(record)) from error


def gaps_dataset(pairs: Sequence[Mapping[str, Any]]) -> "xarray.Dataset":
    """The gaps by pair and time, for plotting; NaN where a pair has no frame.

    Args:
        pairs: the JSON values of each pair, as in `Comparison.as_json`.
    """
    import xarray

    pair_times = [np.array(pair["t"], float) for pair in pairs]
    times = np.unique(np.concatenate(pair_times))

    def rows(name: str) -> tuple[tuple[str, str], np.ndarray]:
        table = np.full((len(pairs), len(times)), np.nan)
        for row, pair, ts in zip(table, pairs, pair_times, strict=True):
            row[np.searchsorted(times, ts)] = np.array(pair[name], float)
        return ("pair", "time"), table

    names = {"distance": "distance_gap"}
    variables: dict[str, Any] = {
        names.get(n, n): rows(n) for n in (*_GAPS, *_TOLERANCES)
    }
    separations = [pair["separation"] for pair in pairs]
    first_times = [np.nan if s is None else s["time"] for s in separations]
    coordinates = {"time": times, "pair": [" – ".join(p["pair"]) for p in pairs]}
    attrs = {
        "kind": "comparison",
        "distance_methods": [pair["distance_method"] for pair in pairs],
        "verdicts": [pair["verdict"] for pair in pairs],
    }
    variables["separation"] = ("pair", np.array(first_times, float))
    return xarray.Dataset(variables, coordinates, attrs)


def compared_runs(folder: Path) -> list[Path]:
    """The folders of the runs whose comparison or distances a folder holds, if any.

    Raises:
        StoreError: if a record of distances is damaged.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs
        >>> runs.compared_runs(Path("nothing"))
        []
    """
    if is_comparison(folder):
        return sorted(folder.glob("*.zarr"))
    if not (folder / DISTANCES).exists():
        return []
    try:
        names = read_object(folder / DISTANCES)["runs"]
        return [Path(os.path.normpath(folder / name)) for name in names]
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(alteration_message(folder / DISTANCES)) from error


def write_distances(
    folder: Path, data: "xarray.Dataset", paths: Sequence[Path]
) -> Path:
    """Writes the dataset of `runs.distances` into a folder and returns the file.

    Args:
        folder: the folder.
        data: the dataset.
        paths: the folders of the runs, which the record names relative to `folder`.

    Raises:
        ResourceError: if it cannot be written.
    """
    numbers = {
        name: array.astype(object).where(array.notnull(), None).values.tolist()
        for name, array in data.data_vars.items()
    }
    axes = {name: data[name].values.tolist() for name in data.coords}
    names = [os.path.relpath(path, folder) for path in paths]
    content = {"attrs": data.attrs, "axes": axes, "values": numbers, "runs": names}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    replace_text(folder / DISTANCES, f"{text}\n")
    return folder / DISTANCES


def distances_dataset(folder: Path) -> "xarray.Dataset":
    """The distances of stored runs, from their record.

    Raises:
        StoreError: if the record is damaged.
    """
    import xarray

    record = folder / DISTANCES
    try:
        content = read_object(record)
        values = {
            name: (("pair", "time"), np.array(rows, float))
            for name, rows in content["values"].items()
        }
        return xarray.Dataset(values, content["axes"], content["attrs"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoreError(alteration_message(record)) from error
