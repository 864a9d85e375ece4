"""Cards: title, facts and picture of an object, as text and as HTML."""

import abc
import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

_FRAME = "display:flex;gap:1em;align-items:center"


def _no_picture() -> str:
    return ""


@dataclass(frozen=True)
class Card:
    """Title, facts and picture of an object.

    Attributes:
        title: kind of the object.
        facts: maps names to sizes and other numbers of the object.
        picture: function that returns an SVG; called only for HTML.
    """

    title: str
    facts: Mapping[str, str]
    picture: Callable[[], str] = _no_picture

    @property
    def text(self) -> str:
        """The card as one line, such as `<Gaussian: d = 2, mean = [0, 0], …>`."""
        facts = [f"{name} = {value}" for name, value in self.facts.items()]
        return f"<{self.title}: {', '.join(facts)}>"

    @property
    def html(self) -> str:
        """The card as HTML, with the picture on the left and the facts on the right."""
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
"""Maps a class to the function that makes the card of its objects."""


class AbstractDisplayable(abc.ABC):
    """Object that is displayed by its card, if it has one."""

    @property
    def card(self) -> Card | None:
        """The card of the object; `None` if its arrays have no values, as in `jit`.

        Classes can override this method. By default it calls the function in `cards`
        for the class of the object.
        """
        maker = cards.get(type(self))
        return None if maker is None else maker(self)

    @abc.abstractmethod
    def plain_repr(self) -> str:
        """The text that represents an object without a card."""

    @override
    def __repr__(self) -> str:
        card = self.card
        return self.plain_repr() if card is None else card.text

    def _repr_html_(self) -> str | None:
        card = self.card
        return None if card is None else card.html


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """An HTML table of names, each with a one-line description."""
    body = "".join(
        f"<tr><td style='text-align:left'><code>{html.escape(name)}</code></td>"
        f"<td style='text-align:left'>{html.escape(line)}</td></tr>"
        for name, line in rows.items()
    )
    return f"<strong>{html.escape(title)}</strong><table>{body}</table>"
