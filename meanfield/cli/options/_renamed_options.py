"""Commands and options of version 0.2 that 0.3 renamed: each still works, with a note.

Help, completion and suggestions use the parsed signatures, which have new names only.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence

from meanfield._deprecation import parse_table, renaming_note
from meanfield.cli.terminal._output import note

# Each block begins with commands, and lists pairs of the old and the new name of a
# subcommand or an option. The table will be removed in version 0.4.
RENAMED_OPTIONS = parse_table("""
train
    examine evaluate
train start
    --given --frozen-arrays, --batch --batch-size, --rate --learning-rate, --drops
    --milestones, --cooling --annealing, --rehearsal --validation-split
verify
    --jobs --workers
""")


def rename_options(tokens: Sequence[str]) -> list[str]:
    """The command line with new names in place of old ones, each with a note."""
    new_tokens = list(tokens)
    for commands, names in RENAMED_OPTIONS.items():
        for command in commands.split(", "):
            words = command.split()
            if new_tokens[: len(words)] == words:
                new_tokens = _rename(new_tokens, len(words), names)
    return new_tokens


def _rename(tokens: list[str], start: int, names: Mapping[str, str]) -> list[str]:
    """The words of a command line, with old subcommands and options renamed.

    The name of the command ends before index `start`. Options end at `--`.
    """
    end = tokens.index("--") if "--" in tokens else len(tokens)
    new_tokens = list(tokens)
    for i, token in enumerate(tokens[start:end], start):
        old, equals, value = token.partition("=")
        if old in names and (old.startswith("-") or i == start):
            note(renaming_note(old, names[old]))
            new_tokens[i] = names[old] + equals + value
    return new_tokens


@contextlib.contextmanager
def note_renamings() -> Iterator[None]:
    """Context manager that prints warnings about old names as notes.

    Python itself does not show them outside scripts.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        try:
            yield
        finally:
            for warning in caught:
                note(str(warning.message))
