"""Help as wide as the terminal: docstrings without the line ends of their source."""

import re
from typing import Any

from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel, InlineText
from rich.console import Console, ConsoleOptions
from rich.text import Text
from typing_extensions import override

ENDS_OF_LINES = re.compile(r"(?<=\S) *\n(?=\S)")  # those inside a paragraph


class Help(DefaultFormatter):
    """The usual help, its paragraphs wrapped anew, and no default for a flag."""

    @override
    def __call__(
        self, console: Console, options: ConsoleOptions, panel: HelpPanel
    ) -> None:
        entries = [_wrapped_entry(entry) for entry in panel.entries]
        super().__call__(console, options, panel.copy(entries=entries))

    @override
    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        super().render_description(console, options, _wrapped(description))


def _wrapped_entry(entry: HelpEntry) -> HelpEntry:
    default = None if entry.default == "False" else entry.default
    description = _wrapped(entry.description)
    return entry.copy(description=description, default=default)


def _wrapped(description: Any) -> Any:
    """A text whose paragraphs are one line each, for the terminal to break."""
    if not isinstance(description, InlineText) or not isinstance(
        description.primary_renderable, Text
    ):
        return description
    text = ENDS_OF_LINES.sub(" ", description.primary_renderable.plain)
    whole = InlineText(Text(text), force_empty_end=description.force_empty_end)
    for part in description.texts:
        whole.append(part)
    return whole
