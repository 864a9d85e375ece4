"""`meanfield export`: writes the frames of a run for other programs."""

from pathlib import Path

from meanfield import runs
from meanfield._writing import check_absent
from meanfield.cli.process._plugins import load_before_keys
from meanfield.cli.terminal._output import note

LARGE = 100_000_000  # bytes; before a larger table is written, its size is printed


def export(
    run: Path, file: Path, /, *, force: bool = False, plugin: list[Path] | None = None
) -> None:
    """Write the frames of a run as .npz, .nc or .csv.

    For example:
        meanfield export first.zarr first.npz
        meanfield export moons.zarr moons.csv

    Args:
        run: folder of the run.
        file: output file; the format follows its extension: .npz (all arrays), .nc
            (netCDF) or .csv (long table).
        force: whether to overwrite an existing `file` (flag).
        plugin: Python file that registers the measure of the run; may be repeated.

    Raises:
        InvalidInputError: if `file` exists and `force` is false.
    """
    if not force:
        check_absent(file)
    from meanfield.storage import export as write
    from meanfield.storage import table_bytes

    load_before_keys(plugin, {}, run)
    dataset = runs.open(run)
    if file.suffix.lower() == ".csv" and (size := table_bytes(dataset)) > LARGE:
        note(f"`{file}` will hold about {runs.format_bytes(size)}; an .npz is smaller")
    write(dataset, file)
    note(f"wrote {file}")
