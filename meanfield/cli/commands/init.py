"""`meanfield init`: writes a commented TOML file or plugin as a starting point."""

from pathlib import Path
from typing import Literal

from meanfield import plotting
from meanfield._folders import templates
from meanfield._reading import read_text
from meanfield._writing import check_absent, check_writable
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError

RUN = "run"
NAMELESS = "THIS_FILE.py"  # placeholder for the file name in plugin templates


def init(
    path: Path | None = None,
    /,
    *,
    kind: Literal["run", "attention", "panel", "statement", "task"] = RUN,
    force: bool = False,
) -> None:
    """Write a commented starting file: all keys, or a plugin.

    For example:
        meanfield init mine.toml
        meanfield init --kind attention mine.py
        meanfield init --kind statement claim.py

    Args:
        path: file to write; run.toml by default.
        kind: kind of file: `run` (TOML with all keys and defaults), or a working plugin
            with an `attention`, `panel`, `statement` or `task`.
        force: whether to overwrite an existing file (flag).
    """
    file = _target(path, kind)
    if not force:
        check_absent(file)
    check_writable(file)
    if kind == RUN:
        from meanfield.spec import template

        text, hint = template(), f"run it with `meanfield simulate {file}`"
    else:
        text = read_text(templates()[kind]).replace(NAMELESS, str(file))
        hint = "its first lines say how to try it"
    plotting.write_file(file, text.encode())
    note(f"wrote {file}; {hint}")


def _target(path: Path | None, kind: str) -> Path:
    """The file to write.

    Raises:
        InvalidInputError: if its extension does not fit its kind.
    """
    file = path or Path("run.toml")
    if kind != RUN and file.suffix != ".py":
        raise InvalidInputError(
            f"A plugin must be a .py file; got `{file}`. Use `meanfield init --kind "
            f"{kind} mine.py`."
        )
    if kind == RUN and file.suffix == ".py":
        raise InvalidInputError(
            f"`{file}` is a plugin: choose its kind, as in `meanfield init --kind "
            f"attention {file}`. The other kinds are panel, statement and task. For "
            "a TOML file with all keys, use the extension .toml."
        )
    return file
