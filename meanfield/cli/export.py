"""`meanfield export`: frames for other programs."""

from pathlib import Path


def export(run: Path, file: Path, /) -> None:
    """Write the frames of a run as .npz (all arrays) or .csv (a long table).

    Args:
        run: the folder of the run.
        file: where to; its ending decides the format.
    """
    from meanfield import runs
    from meanfield.storage import export as write

    from ._output import note

    write(runs.dataset(run), file)
    note(f"wrote {file}")
