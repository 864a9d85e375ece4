"""`meanfield reproduce`: recomputes figures from the literature."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import note, note_step, print_json, print_rows
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    from meanfield.reproduce import ReproducedFigure


def reproduce(
    *names: str,
    size: Literal["quick", "paper"] = "paper",
    reading: Annotated[
        Literal["text", "code", "corrected", "iid"] | None, Parameter(name="--as")
    ] = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Recompute figures from the literature, each with its numbers.

    For example:
        meanfield reproduce list
        meanfield reproduce castin2025-fig1b --size quick
        meanfield reproduce castin2025-fig1b --size quick --as code
        meanfield reproduce castin2025-fig1a --size quick --as corrected

    Args:
        names: names of figures, `all`, or `list`, which prints the names.
        size: problem size: `paper` (as published) or `quick` (reduced).
        reading: reading of the paper to use: `text` (its text, solved to tolerance),
            `code` (the published procedure), `corrected` (the text under a hypothesis
            that makes its claim true) or `iid` (all entries of V independent); by
            default the figure's first reading. Other readings write NAME-READING files.
        out: folder for NAME.pdf, NAME.png and NAME.json. [default: figures/ in the
            working folder, figures/quick/ with --size quick]
        json: JSON on stdout instead of a table (flag).
    """
    if not names:
        raise InvalidInputError("Name a figure, or `all`; see `reproduce list`.")
    open_session()
    from meanfield.reproduce import reproduce, select_experiments

    if names == ("list",):
        _list(json=json)
        return
    figures = select_experiments(names, reading)
    folder = out or Path("figures", "quick" if size == "quick" else "")
    note(f"the figures go to {folder.absolute()}")
    begin = time.perf_counter()
    rows = [
        _row(picture)
        for picture in reproduce(figures, size, reading, folder, report=note_step)
    ]
    if json:
        print_json(rows)
        return
    columns = ("name", "computing", "drawing", "caption")
    print_rows([{key: row[key] for key in columns} for row in rows])
    note(f"{time.perf_counter() - begin:.0f} s; the figures are in {folder.absolute()}")


def _list(*, json: bool) -> None:
    from meanfield.reproduce import select_experiments

    rows = [
        {
            "name": name,
            "source": experiment.source,
            "readings": list(experiment.readings),
            "claim": experiment.claim,
        }
        for name, experiment in select_experiments(("all",), None).items()
    ]
    (print_json if json else print_rows)(rows)


def _row(picture: "ReproducedFigure") -> dict[str, Any]:
    compute_seconds, draw_seconds = picture.seconds
    return {
        "name": picture.name,
        "computing": round(compute_seconds, 2),
        "drawing": round(draw_seconds, 2),
        "files": [str(file) for file in picture.files],
        "caption": picture.caption,
    }
