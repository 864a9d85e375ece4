"""Help pages that fit the terminal, and one-line messages about wrong usage."""

import re
from typing import Any

from cyclopts import CycloptsError
from cyclopts.exceptions import (
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.help import DefaultFormatter, HelpPanel, InlineText
from rich.console import Console, ConsoleOptions
from rich.text import Text
from typing_extensions import override

from meanfield._registry import suggestion

ENDS_OF_LINES = re.compile(r"(?<=\S) *\n(?=\S)")  # line breaks inside a paragraph


HELP_ALL = "--help-all"


class Help(DefaultFormatter):
    """Help formatter of cyclopts, with rewrapped paragraphs and no defaults for flags.

    Attributes:
        rare: heading and name of each unlisted option, such as `Grid` and `--cfl`.
            A heading shows how many of its options are unlisted.
    """

    def __init__(self, rare: frozenset[tuple[str | None, str]] = frozenset()) -> None:
        super().__init__()
        self.rare = rare

    @override
    def __call__(
        self, console: Console, options: ConsoleOptions, panel: HelpPanel
    ) -> None:
        entries = [
            entry.copy(
                description=_unwrap(entry.description),
                default=None if entry.default == "False" else entry.default,
            )
            for entry in panel.entries
            if not {(panel.title, name) for name in entry.positive_names} & self.rare
        ]
        n_hidden = len(panel.entries) - len(entries)
        more = f" ({n_hidden} more with {HELP_ALL})" if n_hidden else ""
        title = f"{panel.title}{more}"
        super().__call__(console, options, panel.copy(entries=entries, title=title))

    @override
    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        super().render_description(console, options, _unwrap(description))


def _unwrap(description: Any) -> Any:
    """Joins the lines of each paragraph, so that `rich` can wrap it."""
    if not isinstance(description, InlineText) or not isinstance(
        description.primary_renderable, Text
    ):
        return description
    text = ENDS_OF_LINES.sub(" ", description.primary_renderable.plain)
    whole = InlineText(Text(text), force_empty_end=description.force_empty_end)
    for part in description.texts:
        whole.append(part)
    return whole


def usage(error: CycloptsError) -> str:
    """One-line message about a wrong command line; suggests a similar name, if any."""
    if isinstance(error, UnknownOptionError):
        word = str(error.token.keyword or error.token.value)
        names = [n for argument in error.argument_collection for n in argument.names]
        names += [HELP_ALL] if names else []
        return f"There is no option `{word}`; {_suggest(word, names, 'options')}"
    line = " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        word = (error.unused_tokens or [""])[0]
        names = [] if error.app is None else [n for n in error.app if n[0] != "-"]
        return f"There is no command `{word}`; {_suggest(word, names, 'commands')}"
    if isinstance(error, UnusedCliTokensError):
        line = f"Unexpected argument `{(error.unused_tokens or [''])[0]}`."
    return f"{line} See `meanfield {' '.join(error.command_chain or ())} --help`."


def _suggest(word: str, names: list[str], kind: str) -> str:
    if not names:
        return f"see `--help` for the {kind}."
    return suggestion(word, names)
