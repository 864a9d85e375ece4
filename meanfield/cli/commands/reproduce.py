"""`meanfield reproduce`: the figures of the literature, rebuilt."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import note, note_step, print_json, print_rows
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    from meanfield.reproduce import Reproduced


def reproduce(
    *names: str,
    size: Literal["quick", "paper"] = "paper",
    reading: Annotated[
        Literal["text", "code", "corrected", "iid"] | None, Parameter(name="--as")
    ] = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Rebuild figures of the literature, each with its numbers.

    For example:
        meanfield reproduce list
        meanfield reproduce castin2025-fig1b --size quick
        meanfield reproduce castin2025-fig1b --size quick --as code
        meanfield reproduce castin2025-fig1a --size quick --as corrected

    Args:
        names: names of figures, `all` of them, or `list`, which says what there is.
        size: `paper` as published; `quick` the same with less of everything.
        reading: `text`, what the paper says, solved to tolerance; `code`, the procedure
            published with it; `corrected`, the text under a hypothesis that makes its
            claim true; `iid`, the text with all entries of V independent. A reading
            other than a figure's first, the default, is written as NAME-READING.
        out: folder for NAME.pdf, NAME.png and NAME.json. [default: figures/ in the
            working folder, figures/quick/ with --size quick]
        json: print JSON on stdout.
    """
    if not names:
        raise InvalidInputError("Name a figure, or `all`; `reproduce list` lists them.")
    open_session()
    from meanfield.reproduce import chosen, reproduce

    if names == ("list",):
        _list(in_json=json)
        return
    figures = chosen(names, reading)
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


def _list(*, in_json: bool) -> None:
    from meanfield.reproduce import chosen

    rows = [
        {
            "name": name,
            "source": experiment.source,
            "readings": list(experiment.readings),
            "claim": experiment.claim,
        }
        for name, experiment in chosen(("all",), None).items()
    ]
    (print_json if in_json else print_rows)(rows)


def _row(picture: "Reproduced") -> dict[str, Any]:
    compute_seconds, draw_seconds = picture.seconds
    return {
        "name": picture.name,
        "computing": round(compute_seconds, 2),
        "drawing": round(draw_seconds, 2),
        "files": [str(file) for file in picture.files],
        "caption": picture.caption,
    }
