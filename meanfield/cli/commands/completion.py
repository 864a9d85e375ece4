"""`meanfield completion`: shell completion."""

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
    """Print or install the shell completion of commands and options.

    For example:
        meanfield completion bash --install
        meanfield completion zsh > _meanfield

    Args:
        shell: bash, zsh or fish.
        install: whether to write the completion file and, for bash and zsh, a line in
            ~/.bashrc or ~/.zshrc (flag).
        force: whether to overwrite an existing file whose content differs (flag).

    Raises:
        InvalidInputError: if a different file exists and `force` is false.
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
