"""`meanfield init`: a commented file to begin with."""

from pathlib import Path

from meanfield._writing import check_absent, check_writable
from meanfield.cli.terminal._output import note


def init(path: Path = Path("run.toml"), /, *, force: bool = False) -> None:
    """Write a commented TOML file of all keys, with their defaults.

    For example:
        meanfield init mine.toml
        meanfield simulate mine.toml --t 2

    Args:
        path: the file to write.
        force: replace it if it exists.

    Raises:
        InvalidInputError: if it exists, and is not to be replaced.
    """
    if not force:
        check_absent(path)
    check_writable(path)
    from meanfield.plotting import put
    from meanfield.spec import template

    put(path, template().encode())
    note(f"wrote {path}; run it by `meanfield simulate {path}`")
