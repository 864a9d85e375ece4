"""`meanfield completion`: what the Tab key completes."""

import sys
from typing import Literal

from meanfield.cli.terminal._output import note


def completion(
    shell: Literal["bash", "zsh", "fish"], /, *, install: bool = False
) -> None:
    """Print or install what completes commands and options.

    For example:
        meanfield completion bash --install
        meanfield completion zsh > _meanfield

    Args:
        shell: bash, zsh or fish.
        install: write it where the shell looks for it, and, for bash and zsh, a line
            into ~/.bashrc or ~/.zshrc that loads it.
    """
    from meanfield.cli import app

    if not install:
        sys.stdout.write(app.generate_completion(shell=shell))
        return
    place = app.install_completion(shell=shell)
    note(f"wrote {place}; a new {shell} completes `meanfield`")
