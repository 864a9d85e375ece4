"""Keys of the stopping criteria, which may end a flow before its final time."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PositiveFloat

from ._grid import Strict
from ._keys import Key

ENDS_OF_PAGE = "it ends at `--t`, at rest (`--steady`) or at a blow-up"


def names_in(value: Any) -> Any:
    """A list of names; a text is split at its commas."""
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",")]


def _check_numbers(names: list[str]) -> list[str]:
    """Returns `names` if each is a name and a finite number, as in `rest:1e-6`.

    Raises:
        ValueError: naming the first entry that is not.
    """
    for text in names:
        name, _, number = text.rpartition(":")
        try:
            is_valid = name and math.isfinite(float(number))
        except ValueError:
            is_valid = False
        if not is_valid:
            raise ValueError(f"must be NAME:NUMBER, such as `rest:1e-6`, not `{text}`")
    return names


def check_distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("must not contain a name twice")
    return names


class StopSpec(Strict):
    """The keys of the stopping criteria."""

    steady: Annotated[
        PositiveFloat | None, Key(group="Time"), Field(examples=[1e-6])
    ] = None
    """tolerance of the steady state: the flow stops when its remaining distance is
    below this fraction of the initial size, such as 1e-6"""

    bound: Annotated[
        PositiveFloat | None,
        Key(is_rare=True, group="Time", no_page=ENDS_OF_PAGE),
        Field(examples=[1e6]),
    ] = None
    """size of the measure above which the flow stops, such as 1e6"""

    stop: Annotated[
        list[str] | None,
        BeforeValidator(names_in),
        AfterValidator(check_distinct),
        AfterValidator(_check_numbers),
        Key(is_rare=True, names="stops", group="Time", no_page=ENDS_OF_PAGE),
        Field(examples=[["rest:1e-6"]], min_length=1),
    ] = None
    """further stopping criteria, as NAME:THRESHOLD with commas between, such as
    rest:1e-6; see `list stops`"""
