"""`meanfield completion`: what the Tab key completes."""

import sys
from typing import Literal

from cyclopts.completion.install import get_default_completion_path

from meanfield._writing import check_absent
from meanfield.cli.commands import app
from meanfield.cli.terminal._output import note


def completion(
    shell: Literal["bash", "zsh", "fish"],
    /,
    *,
    install: bool = False,
    force: bool = False,
) -> None:
    """Print or install what completes commands and options.

    For example:
        meanfield completion bash --install
        meanfield completion zsh > _meanfield

    Args:
        shell: bash, zsh or fish.
        install: write it where the shell looks for it, and, for bash and zsh, a line
            into ~/.bashrc or ~/.zshrc that loads it.
        force: replace a file there that says something else.

    Raises:
        InvalidInputError: if there is one, and it is not to be replaced.
    """
    script = app.generate_completion(shell=shell)
    if not install:
        sys.stdout.write(script)
        return
    place = get_default_completion_path(shell, app.name[0])
    is_same = place.is_file() and place.read_bytes() == script.encode()
    if not force and not is_same:
        check_absent(place)
    app.install_completion(shell=shell, output=place)
    note(f"wrote {place}; a new {shell} completes `meanfield`")
