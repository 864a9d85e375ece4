"""Options of pictures and movies, made from the fields of `Look` and `Film`."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cyclopts import Group

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import OPTIONS, Look
from meanfield.plotting._figure.options import Field, options_of
from meanfield.plotting._writing.film import Film

from ._options import make_parameter, replace_parameters

_FILM = options_of(Film)


def add_look_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces `**options` of `command` by a documented option per field of `Look`."""
    return replace_parameters(command, _parameters("Look", OPTIONS))


def add_movie_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces `**options` by the options of `Film` and the movie options of `Look`."""
    moving = {n: field for n, field in OPTIONS.items() if field.option.movies != ()}
    film = _parameters("Movie", _FILM)
    return replace_parameters(command, [*film, *_parameters("Look", moving)])


def _parameters(heading: str, options: Mapping[str, Field]) -> list[inspect.Parameter]:
    make = partial(make_parameter, group=Group(heading, sort_key=2))
    parameters = []
    for name, field in options.items():
        option, kind = field.option, field.kind
        if field.help:
            style = {"metavar": option.metavar, "allow_leading_hyphen": kind is str}
            parameters.append(make(name, kind, help=field.help, **style))
        if option.negation_help:
            parameters.append(make(f"no_{name}", bool, help=option.negation_help))
    return parameters


def film_of(options: Mapping[str, Any]) -> Film:
    """The `Film` that the options describe.

    Raises:
        InvalidInputError: if a value is invalid.
    """
    return Film(**_values(options, _FILM))


def look_of(options: Mapping[str, Any]) -> Look:
    """The `Look` that the options describe.

    Raises:
        InvalidInputError: if a value is invalid, or an option and its `--no-` form are
            both given.
        UnknownNameError: if there is no such style or colour map.
    """
    return Look(**_values(options, OPTIONS))


def _values(options: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    """The values of the fields that are given as options, parsed from text."""
    values = {}
    for name, field in fields.items():
        value, read = options.get(name), field.option.read
        if options.get(f"no_{name}"):
            if value is not None:
                raise InvalidInputError(
                    f"`--{name}` and `--no-{name}` contradict each other: give one."
                )
            values[name] = field.option.negation_value
        elif value is not None and value is not False:
            values[name] = read(value) if read else value
    return values
