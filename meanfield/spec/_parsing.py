"""Parsing of names and values into a spec, with one-line error messages."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from meanfield._reading import check_bounds
from meanfield._registry import suggestion
from meanfield.errors import InvalidInputError

from ._model import KEYS, MATRICES, RunSpec
from .attention import AttentionSpec, LayerSpec

Problem = Mapping[str, Any]  # a pydantic error, with its type, loc, input and msg

_MODELS = {"layers": LayerSpec, "terms": AttentionSpec}  # model of each table's rows
_MAX_CHARACTERS = 60  # longest excerpt of an invalid value in a message


def parse(values: Mapping[str, Any], *, where: str = "the spec") -> RunSpec:
    """A `RunSpec` from names and values.

    Args:
        values: the keys that are given.
        where: source of the values, for messages.

    Raises:
        InvalidInputError: naming the key, its value and valid values.

    Examples:
        >>> from meanfield.spec import parse
        >>> parse({"attention": "l2", "A": -1, "d": 2}).attention
        'l2'
        >>> parse({"atention": "l2"})
        Traceback (most recent call last):
            ...
        meanfield.errors.InvalidInputError: In the spec: there is no key `atentio...
    """
    _check_bounded(values, where)
    try:
        return RunSpec.model_validate(dict(values))
    except ValidationError as error:
        problem = _first(error.errors())
        raise InvalidInputError(f"In {where}: {_explain(problem)}") from None


def merge_values(values: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """`values` updated with `newer`, dropping the keys that newer ones replace.

    Examples:
        >>> from meanfield.spec import merge_values
        >>> merge_values({"Q": 1.0, "K": -1.0, "V": 1.0}, {"A": -1.0})
        {'V': 1.0, 'A': -1.0}
    """
    synonyms = {old for key in newer if key in KEYS for old in KEYS[key].replaces}
    replaced_keys = synonyms - set(newer)
    remainder = {k: v for k, v in values.items() if k not in replaced_keys}
    return {**remainder, **newer}


def _check_bounded(values: Mapping[str, Any], where: str) -> None:
    for key, value in values.items():
        try:
            text = json.dumps(check_bounds(value), default=str, ensure_ascii=False)
            _check_text(text)
        except ValueError as error:
            raise InvalidInputError(f"In {where}: `{key}`: {error}.") from None


def _check_text(text: str) -> None:
    """Rejects text that can be neither a file name nor the content of a file.

    Raises:
        ValueError: if it contains NUL, or a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the value must be valid Unicode") from None
    if r"\u0000" in text.replace(r"\\", ""):
        raise ValueError("the value must not contain the character NUL")


def _first(problems: Sequence[Problem]) -> Problem:
    """The problem to report: an unknown key, if any, since it can cause the others."""
    unknown_keys = [p for p in problems if p["type"] == "extra_forbidden"]
    value_errors = [p for p in problems if p["type"] == "value_error"]
    return (unknown_keys or value_errors or problems)[0]


def _explain(problem: Problem) -> str:
    path = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        model = _MODELS.get(path[0], RunSpec) if len(path) > 1 else RunSpec
        hint = suggestion(path[-1], list(model.model_fields))
        return f"there is no key `{'.'.join(path)}`; {hint}"
    reason = str(problem.get("ctx", {}).get("error", "")).removesuffix(".")
    if not path or path[-1].isdigit():
        return f"{reason}."
    matrix = _end_of_matrix(path)
    if matrix:
        reason = (
            reason or "must be finite: a number, a list of rows, @FILE.npy or a law"
        )
        return f"`{'.'.join(path[:matrix])}` {reason}; got {_format_input(problem)}."
    key = ".".join(path)
    if problem["type"] == "missing":
        return f"`{key}` is missing."
    if reason:
        return f"`{key}` {reason}; got {_format_input(problem)}."
    return f"`{key}` cannot be {_format_input(problem)}: {_plain(problem['msg'])}."


def _end_of_matrix(path: Sequence[str]) -> int:
    """Length of the prefix of `path` that names a matrix; 0 if none does."""
    for i, part in enumerate(path, 1):
        if part in MATRICES or path[i - 2 : i - 1] == ["drift"]:
            return i
    return 0


def _format_input(problem: Problem) -> str:
    text = repr(problem["input"])
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def _plain(message: str) -> str:
    """A pydantic message, reworded as the end of a sentence."""
    text = message.partition(", unable to parse")[0].removeprefix("Input should be ")
    return f"it must be {text}" if text != message else message.lower()
