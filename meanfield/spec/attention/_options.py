"""Parsing of `NAME=VALUE,…`: the options of an attention, or the parts of a drift."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from meanfield._reading import json_or_text

Option = bool | int | float | str | list[Any]

_GRAMMAR = "takes NAME=VALUE, or several such pairs separated by commas"
_SEPARATOR = re.compile(r",(?=\s*\w+\s*=)")
_PAIR = re.compile(r"\s*([A-Za-z]\w*)\s*=(.*)", re.DOTALL | re.ASCII)


def options_of(value: Any) -> Any:
    """The options in a text; a value that is not a string is returned unchanged.

    Raises:
        ValueError: if the text is not a list of names and values, or has a name twice.

    Examples:
        >>> from meanfield.spec import options_of
        >>> options_of("slices=random:8,tau=2")
        {'slices': 'random:8', 'tau': 2}
    """
    if not isinstance(value, str):
        return value
    matches = [_PAIR.fullmatch(part) for part in _SEPARATOR.split(value)]
    pairs = [(match[1], json_or_text(match[2].strip())) for match in matches if match]
    if len(pairs) < len(matches) or len(dict(pairs)) < len(pairs):
        raise ValueError(f"{_GRAMMAR}; each name may be given only once")
    return dict(pairs)


def check_option_values(options: dict[str, Option]) -> dict[str, Option]:
    """Returns `options` if each has a valid name and a value that can be stored.

    Raises:
        ValueError: naming the first invalid name or value.
    """
    for name, value in options.items():
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"must have ASCII identifiers as names, not `{name}`")
        if value == "" or not _is_finite(value):
            raise ValueError(
                f"must have a finite, nonempty value for `{name}`, not {value!r}"
            )
    return options


def files_in(options: Mapping[str, Option] | None) -> dict[str, str]:
    """Paths of the options whose value is `@FILE`, by name."""
    texts = {k: v for k, v in (options or {}).items() if isinstance(v, str)}
    return {name: text[1:] for name, text in texts.items() if text.startswith("@")}


def replace_files(
    options: Mapping[str, Any], replacement: Callable[[str], Any]
) -> dict[str, Any]:
    """`options`, with each `@FILE` replaced by `replacement(FILE)`.

    Args:
        options: names and values.
        replacement: maps a path to the value that replaces it.

    Examples:
        >>> from meanfield.spec import replace_files
        >>> replace_files(
        ...     {"Q2": "@second.npy", "tau": 2.0}, lambda path: f"content of {path}"
        ... )
        {'Q2': 'content of second.npy', 'tau': 2.0}
    """
    replacements = {name: replacement(path) for name, path in files_in(options).items()}
    return {**options, **replacements}


def _is_finite(value: object) -> bool:
    if isinstance(value, list):
        return len(value) > 0 and all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
