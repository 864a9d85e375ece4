"""What a spec says of ends before its last time."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PositiveFloat

from ._grid import Strict
from ._keys import Key

ENDS_OF_PAGE = "it ends at `--t`, at rest (`--steady`) or at a blow-up"


def names_in(value: Any) -> Any:
    """Names in a list; as text they are separated by commas."""
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",")]


def _numbered(names: list[str]) -> list[str]:
    """The same, each a name and a finite number.

    Raises:
        ValueError: naming the first that is not.
    """
    for text in names:
        name, _, number = text.rpartition(":")
        try:
            known = name and math.isfinite(float(number))
        except ValueError:
            known = False
        if not known:
            raise ValueError(f"takes NAME:NUMBER, such as `rest:1e-6`, not `{text}`")
    return names


def distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("has a name twice: leave one out")
    return names


class EarlySpec(Strict):
    """When a flow may end early."""

    steady: Annotated[
        PositiveFloat | None,
        Key(group="Time"),
        Field(
            examples=[1e-6],
            description="stop when the way left is this share of the initial size",
        ),
    ] = None
    bound: Annotated[
        PositiveFloat | None,
        Key(
            group="Time",
            no_page=ENDS_OF_PAGE,
        ),
        Field(examples=[1e6], description="stop when the size passes this"),
    ] = None
    stop: Annotated[
        list[str] | None,
        BeforeValidator(names_in),
        AfterValidator(lambda names: names and _numbered(distinct(names))),
        Key(
            names="stops",
            group="Time",
            no_page=ENDS_OF_PAGE,
        ),
        Field(
            examples=[["rest:1e-6"]],
            min_length=1,
            description="further ways to end early, as NAME:NUMBER; see `list stops`",
        ),
    ] = None
