"""The options of pictures and movies: how they look."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Group, Parameter

from meanfield.errors import InvalidInputError
from meanfield.plotting._writing.defaults import (
    FPS,
    GIF_FPS,
    HOLD,
    MOST_FRAMES,
    SHORTEST,
    SIZE,
    TURN,
)

from ._options import with_parameters

if TYPE_CHECKING:
    from meanfield.plotting import Film, Look


class _Option(NamedTuple):
    """The kind of a value, what stands for it, and what it does."""

    kind: type
    metavar: str | None
    help: str


_LOOK = {
    "style": _Option(
        str,
        "NAME",
        "paper, talk (larger), dark (light on dark) or dark-talk [default: paper]",
    ),
    "width": _Option(
        str,
        "COLUMNS|LENGTH",
        "1 or 2, for columns of a journal (86 and 178 mm), or a length: 120mm, 3.4in",
    ),
    "height": _Option(
        str, "LENGTH", "as 100mm or 4in; by default what suits the width"
    ),
    "fontsize": _Option(
        float, "POINTS", "size of labels; other text, lines and marks keep their ratio"
    ),
    "title": _Option(str, "TEXT", "in place of what was run, in a few words"),
    "no_title": _Option(bool, None, "no title"),
    "no_caption": _Option(bool, None, "no small print below the picture"),
    "xlim": _Option(str, "LOW,HIGH", "limits of the horizontal axis"),
    "ylim": _Option(
        str, "LOW,HIGH", "limits of the vertical axis, of the upper picture"
    ),
    "relative": _Option(
        bool, None, "take the mean out and make the RMS radius one, in every frame"
    ),
    "link": _Option(
        float,
        "NUMBER",
        "radius within which tokens are of one cluster, in RMS radii, or 1 - cosine; "
        "colours by it",
    ),
    "metric": _Option(
        str,
        "NAME",
        "in what tokens of one cluster are near: euclidean, or cosine, of their angles "
        "seen from 0 [default: euclidean]",
    ),
    "colour": _Option(
        str,
        "NAME",
        "what colours mean: of tokens start, cluster, label (words, or @FILE.npy), "
        "norm or position; of a sweep a number such as t_star, clusters, trace "
        "or steps, or `ending` for none",
    ),
    "x": _Option(str, "KEY", "the axis of a sweep along which lines go"),
    "heads": _Option(
        str,
        "LIST",
        "whose attention matrices are drawn, from 0, as 0,3,7 [default: the first]",
    ),
    "query": _Option(
        str,
        "TOKEN",
        "a word of the text, or the number of a token from 0: draw its attention "
        "alone, by head",
    ),
}

# What a picture may have and a movie has not.
_STILL = ("width", "height", "x", "heads", "query")

_FILM = {
    "fps": _Option(
        int,
        "NUMBER",
        f"frames of the run shown in a second, of a GIF {GIF_FPS} at most "
        f"[default: {FPS}]",
    ),
    "seconds": _Option(
        float,
        "NUMBER",
        "for which it plays, before the hold; by default a frame of each stored one, "
        f"{MOST_FRAMES} at most, and {SHORTEST:g} seconds at least",
    ),
    "size": _Option(
        str,
        "PIXELS",
        f"1280x720, or a width alone [default: {SIZE[0]}x{SIZE[1]}]",
    ),
    "trails": _Option(
        int,
        "FRAMES",
        "of the past that tokens and ellipses trail behind them; 0 for none",
    ),
    "turn": _Option(
        float,
        "DEGREES",
        f"by which the camera turns, in space [default: {TURN:g}]",
    ),
    "loop": _Option(
        int, "TURNS", "how often it plays; without it, or with 0, a GIF does for ever"
    ),
    "hold": _Option(
        float, "SECONDS", f"for which the last frame stands [default: {HOLD:g}]"
    ),
}


def with_look(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, whose `**options` become one documented option for each choice."""
    return with_parameters(command, _parameters("Look", _LOOK))


def with_film(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with the options of a look, and with those of a movie."""
    film = _parameters("Movie", _FILM)
    look = {name: row for name, row in _LOOK.items() if name not in _STILL}
    return with_parameters(command, [*film, *_parameters("Look", look)])


def _parameters(group: str, options: dict[str, _Option]) -> list[inspect.Parameter]:
    return [_parameter(group, name, option) for name, option in options.items()]


def _parameter(group: str, name: str, option: _Option) -> inspect.Parameter:
    annotation = Annotated[
        option.kind | None,
        Parameter(
            name=f"--{name.replace('_', '-')}",
            help=option.help,
            group=Group(group, sort_key=2),
            metavar=option.metavar,
            negative="",
            allow_leading_hyphen=option.kind is str,
            show_default=False,
        ),
    ]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)


def film_of(options: Mapping[str, Any]) -> "Film":
    """How options want a movie to be shown.

    Raises:
        InvalidInputError: if a value does not work.
    """
    from meanfield.plotting import Film, size_of

    values = {k: v for k, v in options.items() if k in _FILM and v is not None}
    if "size" in values:
        values["size"] = size_of(values["size"])
    return Film(**values)


def look_of(options: Mapping[str, Any]) -> "Look":
    """The look that options choose.

    Raises:
        InvalidInputError: if a value does not work, or a title is asked for and not.
        UnknownNameError: if there is no such style.
    """
    from meanfield.plotting import Look, heads_of, height_of, limits_of, width_of

    given = {k: v for k, v in options.items() if v is not None and v is not False}
    values = {name: value for name, value in given.items() if name not in _FILM}
    if values.pop("no_title", False):
        if "title" in values:
            raise InvalidInputError(
                "`--title` and `--no-title` exclude each other: leave one out."
            )
        values["title"] = ""
    if values.pop("no_caption", False):
        values["caption"] = False
    for name in values.keys() & {"xlim", "ylim"}:
        values[name] = limits_of(name, values[name])
    if "width" in values:
        values["width"] = width_of(values["width"])
    if "height" in values:
        values["height"] = height_of(values["height"])
    if "heads" in values:
        values["heads"] = heads_of(values["heads"])
    return Look(**values)
