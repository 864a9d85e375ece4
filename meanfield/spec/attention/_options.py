"""Options that one variant of attention has: names and values."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from meanfield._reading import json_value

Option = bool | int | float | str | list[Any]

_GRAMMAR = "takes NAME=VALUE, or several of them with commas between"
_BETWEEN = re.compile(r",(?=\s*\w+\s*=)")
_NAMED = re.compile(r"\s*([A-Za-z]\w*)\s*=(.*)", re.DOTALL | re.ASCII)


def options_of(value: Any) -> Any:
    """The options in a text; what is no text is left as it is.

    Raises:
        ValueError: if it is not a list of names and values, or has a name twice.

    Examples:
        >>> from meanfield.spec import options_of
        >>> options_of("slices=random:8,tau=2")
        {'slices': 'random:8', 'tau': 2}
    """
    if not isinstance(value, str):
        return value
    named = [_NAMED.fullmatch(part) for part in _BETWEEN.split(value)]
    pairs = [(found[1], _value(found[2].strip())) for found in named if found]
    if len(pairs) < len(named) or len(dict(pairs)) < len(pairs):
        raise ValueError(f"{_GRAMMAR}, each name once")
    return dict(pairs)


def checked(options: dict[str, Option] | None) -> dict[str, Option] | None:
    """The options, if each has a name and a value that can be stored.

    Raises:
        ValueError: naming one that does not work.
    """
    for name, value in (options or {}).items():
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"has a name that is none: `{name}`")
        if value == "" or not _is_finite(value):
            raise ValueError(f"has a value of `{name}` that is none: {value!r}")
    return options


def files_in(options: Mapping[str, Option] | None) -> dict[str, str]:
    """The options that are files: their names, and the paths behind `@`."""
    texts = {k: v for k, v in (options or {}).items() if isinstance(v, str)}
    return {name: text[1:] for name, text in texts.items() if text.startswith("@")}


def with_files(
    options: Mapping[str, Any], found: Callable[[str], Any]
) -> dict[str, Any]:
    """The same, with something else in the place of each file.

    Args:
        options: names and values.
        found: what replaces a path.

    Examples:
        >>> from meanfield.spec import with_files
        >>> with_files(
        ...     {"Q2": "@second.npy", "tau": 2.0}, lambda path: f"what {path} holds"
        ... )
        {'Q2': 'what second.npy holds', 'tau': 2.0}
    """
    replaced = {name: found(path) for name, path in files_in(options).items()}
    return {**options, **replaced}


def _value(text: str) -> Any:
    """A JSON value, or a word."""
    try:
        return json_value(text)
    except json.JSONDecodeError:
        return text


def _is_finite(value: object) -> bool:
    if isinstance(value, list):
        return len(value) > 0 and all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
