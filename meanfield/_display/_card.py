"""What an object says of itself: a title, facts, a picture; as text and as HTML."""

import abc
import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

_FRAME = "display:flex;gap:1em;align-items:center"


def _nothing() -> str:
    return ""


@dataclass(frozen=True)
class Card:
    """What an object says of itself.

    Attributes:
        title: what it is.
        facts: its sizes and numbers, by name.
        picture: gives an SVG, when a notebook asks for it.
    """

    title: str
    facts: Mapping[str, str]
    picture: Callable[[], str] = _nothing

    @property
    def text(self) -> str:
        """One line: `<Gaussian: d = 2, mean = [0, 0], …>`."""
        facts = [f"{name} = {value}" for name, value in self.facts.items()]
        return f"<{self.title}: {', '.join(facts)}>"

    @property
    def html(self) -> str:
        """A picture, and beside it the facts."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.facts.items()
        )
        title = f"<strong>{html.escape(self.title)}</strong>"
        return (
            f"<div style='{_FRAME}'><div style='flex:none'>{self.picture()}</div>"
            f"<div style='min-width:0'>{title}<table>{rows}</table></div></div>"
        )


cards: dict[type, Callable[[Any], Card | None]] = {}
"""Makers of cards, by the class of what they show."""


class Shown(abc.ABC):
    """An object that shows itself by a card, if it can."""

    @property
    def card(self) -> Card | None:
        """What it says of itself; `None` where numbers are not known, as in `jit`.

        A hook: by default the maker of its class in `cards` is asked.
        """
        maker = cards.get(type(self))
        return None if maker is None else maker(self)

    @abc.abstractmethod
    def bare(self) -> str:
        """A line of text where there is no card."""

    @override
    def __repr__(self) -> str:
        card = self.card
        return self.bare() if card is None else card.text

    def _repr_html_(self) -> str | None:
        card = self.card
        return None if card is None else card.html


def listed(title: str, rows: Mapping[str, str]) -> str:
    """An HTML table of names, each with a line about it."""
    body = "".join(
        f"<tr><td style='text-align:left'><code>{html.escape(name)}</code></td>"
        f"<td style='text-align:left'>{html.escape(line)}</td></tr>"
        for name, line in rows.items()
    )
    return f"<strong>{html.escape(title)}</strong><table>{body}</table>"
