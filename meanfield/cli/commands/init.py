"""`meanfield init`: a commented file to begin with."""

from pathlib import Path
from typing import Literal

from meanfield import plotting
from meanfield._folders import templates
from meanfield._reading import read_text
from meanfield._writing import check_absent, check_writable
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError

RUN = "run"
NAMELESS = "THIS_FILE.py"  # what a plugin to begin from calls itself


def init(
    path: Path | None = None,
    /,
    *,
    kind: Literal["run", "attention", "panel", "statement", "task"] = RUN,
    force: bool = False,
) -> None:
    """Write a commented file to begin from: all keys, or a plugin.

    For example:
        meanfield init mine.toml
        meanfield init --kind attention mine.py
        meanfield init --kind statement claim.py

    Args:
        path: the file to write; run.toml by default.
        kind: `run`, a TOML file of all keys with their defaults; or a plugin that works
            as it stands, with an attention, a panel, a statement or a task to train on.
        force: replace the file if it exists.
    """
    file = _target(path, kind)
    if not force:
        check_absent(file)
    check_writable(file)
    if kind == RUN:
        from meanfield.spec import template

        text, hint = template(), f"run it by `meanfield simulate {file}`"
    else:
        text = read_text(templates()[kind]).replace(NAMELESS, str(file))
        hint = "its first lines say how to try it"
    plotting.put(file, text.encode())
    note(f"wrote {file}; {hint}")


def _target(path: Path | None, kind: str) -> Path:
    """The file to write.

    Raises:
        InvalidInputError: if it could not be a plugin, and is to be one.
    """
    file = path or Path("run.toml")
    if kind != RUN and file.suffix != ".py":
        raise InvalidInputError(
            f"Plugins end in .py; got `{file}`: write `meanfield init --kind {kind} "
            "mine.py`."
        )
    if kind == RUN and file.suffix == ".py":
        raise InvalidInputError(
            f"A plugin has a kind; got `{file}` alone: write `meanfield init --kind "
            f"attention {file}`, or panel, statement, task; keys go to a file in .toml."
        )
    return file
