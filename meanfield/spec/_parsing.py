"""From names and values to a spec, with one line for what is wrong."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from meanfield._reading import bounded
from meanfield._registry import suggestion
from meanfield.errors import InvalidInputError

from ._model import KEYS, MATRICES, RunSpec
from .attention import AttentionSpec, LayerSpec

Problem = Mapping[str, Any]  # as pydantic tells one: its type, place, input, message

_MODELS = {"layers": LayerSpec, "terms": AttentionSpec}  # of the rows of tables
_SHOWN = 60  # characters of a bad value that a message repeats


def parse(values: Mapping[str, Any], *, where: str = "the spec") -> RunSpec:
    """A `RunSpec` from names and values.

    Args:
        values: the keys that are given.
        where: what is being read, for messages.

    Raises:
        InvalidInputError: naming the key, the value and what works.

    Examples:
        >>> from meanfield.spec import parse
        >>> parse({"attention": "l2", "A": -1, "d": 2}).attention
        'l2'
        >>> parse({"atention": "l2"})
        Traceback (most recent call last):
            ...
        meanfield.errors.InvalidInputError: In the spec: there is no key `atentio...
    """
    _refuse_unbounded(values, where)
    try:
        return RunSpec.model_validate(dict(values))
    except ValidationError as error:
        problem = _first(error.errors())
        raise InvalidInputError(f"In {where}: {_explained(problem)}") from None


def laid_over(values: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with newer ones; a newer way to say the same replaces the older.

    Examples:
        >>> from meanfield.spec import laid_over
        >>> laid_over({"Q": 1.0, "K": -1.0, "V": 1.0}, {"A": -1.0})
        {'V': 1.0, 'A': -1.0}
    """
    synonyms = {old for key in newer if key in KEYS for old in KEYS[key].replaces}
    losses = synonyms - set(newer)
    remainder = {key: value for key, value in values.items() if key not in losses}
    return {**remainder, **newer}


def _refuse_unbounded(values: Mapping[str, Any], where: str) -> None:
    for key, value in values.items():
        try:
            _check_text(json.dumps(bounded(value), default=str, ensure_ascii=False))
        except ValueError as error:
            raise InvalidInputError(f"In {where}: `{key}`: {error}.") from None


def _check_text(text: str) -> None:
    """Refuses what names no file and stands in no other.

    Raises:
        ValueError: for NUL, and for halves of characters.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds what is no Unicode: leave that out") from None
    if r"\u0000" in text.replace(r"\\", ""):
        raise ValueError("it holds the character NUL: leave that out")


def _first(problems: Sequence[Problem]) -> Problem:
    """The problem to tell; unknown keys first, for they may explain the others."""
    unknown = [p for p in problems if p["type"] == "extra_forbidden"]
    ours = [p for p in problems if p["type"] == "value_error"]
    return (unknown or ours or problems)[0]


def _explained(problem: Problem) -> str:
    path = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        model = _MODELS.get(path[0], RunSpec) if len(path) > 1 else RunSpec
        near = suggestion(path[-1], list(model.model_fields))
        return f"there is no key `{'.'.join(path)}`; {near}"
    said = str(problem.get("ctx", {}).get("error", ""))
    if not path or path[-1].isdigit():
        return f"{said}."
    matrix = _end_of_matrix(path)
    if matrix:
        said = said or "must be finite: a number, a list of rows, @FILE.npy or a law"
        return f"`{'.'.join(path[:matrix])}` {said}; got {_shown(problem)}."
    key = ".".join(path)
    if problem["type"] == "missing":
        return f"`{key}` is missing."
    if said:
        return f"`{key}` {said}; got {_shown(problem)}."
    return f"`{key}` cannot be {_shown(problem)}: {_plain(problem['msg'])}."


def _end_of_matrix(path: Sequence[str]) -> int:
    """How much of a place names a matrix: a key, or one of a drift; 0 if none does."""
    for i, part in enumerate(path, 1):
        if part in MATRICES or path[i - 2 : i - 1] == ["drift"]:
            return i
    return 0


def _shown(problem: Problem) -> str:
    text = repr(problem["input"])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(message: str) -> str:
    """What pydantic says, as the end of a sentence."""
    text = message.partition(", unable to parse")[0].removeprefix("Input should be ")
    return f"it must be {text}" if text != message else message.lower()
