"""What a spec says of a grid: its cells, their box, and its steps."""

import math
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    model_validator,
)

from ._keys import Key

# A number of things: what a machine's whole numbers can count.
Count = Annotated[int, Field(gt=0, lt=2**63)]


ON_GRIDS = ("grid", "is a key of grids")


class Strict(BaseModel):
    """A frozen model that refuses keys it does not know, and what is not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_absent(cls, values: Any) -> Any:
        """Leaves out the `null` of JSON, of which pydantic would ask its length."""
        if not isinstance(values, dict):
            return values
        absent = {k for k, field in cls.model_fields.items() if field.default is None}
        return {k: v for k, v in values.items() if v is not None or k not in absent}


def _cell_count(value: Any) -> Any:
    """One number of cells, or one for each of two axes."""
    each = value if isinstance(value, list) else [value]
    whole = all(type(n) is int and 0 < n < 2**63 for n in each)
    if value is not None and not (whole and 0 < len(each) <= 2):
        raise ValueError("must be a whole number of cells, or a list of two")
    return value


def _intervals(value: Any) -> Any:
    """The ends of an interval, or of one for each of two axes."""
    rows = value if isinstance(value, list) else [value]
    pairs = [row if isinstance(row, list) else rows for row in rows]
    good = all(len(p) == 2 and all(map(_is_finite, p)) for p in pairs)
    if value is not None and not (rows and good and all(p[0] < p[1] for p in pairs)):
        raise ValueError("must be LOW,HIGH, increasing, or a list of two such pairs")
    return value


def _is_finite(x: object) -> bool:
    if isinstance(x, bool) or not isinstance(x, int | float):
        return False
    return math.isfinite(x)


class GridSpec(Strict):
    """The keys that only a density on a grid has.

    Examples:
        >>> from meanfield.spec import GridSpec
        >>> GridSpec(cells=400).box, "cells" in GridSpec.model_fields
        (None, True)
    """

    cells: Annotated[
        int | list[int] | None,
        BeforeValidator(_cell_count),
        Key(group="Grid", only=ON_GRIDS, left_behind=True),
        Field(
            examples=[800],
            description="cells of a grid, along all axes or each; 400, or 128 × 128",
        ),
    ] = None
    half_width: Annotated[
        PositiveFloat | None,
        Key(group="Grid", only=ON_GRIDS, left_behind=True),
        Field(
            examples=[16.0],
            description="of its box, in standard deviations of the start; of a normal "
            "one 12, in the plane 8",
        ),
    ] = None
    domain: Annotated[
        list[float] | list[list[float]] | None,
        BeforeValidator(_intervals),
        Key(group="Grid", only=ON_GRIDS, left_behind=True),
        Field(
            examples=[[-6.0, 6.0]],
            description="its box instead, as -6,6 or [[-6,6],[-4,4]]; then `fixed`",
        ),
    ] = None
    grading: Annotated[
        float,
        Key(group="Grid", only=ON_GRIDS, left_behind=True),
        Field(ge=1, description="how many times wider its outer cells are than inner"),
    ] = 1.0
    box: Annotated[
        Literal["affine", "scaled", "fixed", "closed"] | None,
        Key(group="Grid", only=ON_GRIDS),
        Field(
            examples=["scaled"],
            description="how the box moves: with the covariance (`affine`), the spread "
            "along each axis (`scaled`), or not at all (`fixed`; `closed`, and nothing "
            "passes its walls)",
        ),
    ] = None
    bandwidth: Annotated[
        PositiveFloat | None,
        Key(group="Grid", only=ON_GRIDS, left_behind=True),
        Field(
            examples=[0.2],
            description="of the kernels that blur given tokens into a density, in "
            "standard deviations; by Scott's rule",
        ),
    ] = None
    positions: Annotated[
        Count | None,
        Key(group="Grid", only=ON_GRIDS, left_behind=True),
        Field(
            examples=[16],
            description="layers of a masked grid, one for each position; 16",
        ),
    ] = None
    cfl: Annotated[
        float | None,
        Key(group="Grid", only=ON_GRIDS),
        Field(
            examples=[0.5],
            gt=0,
            le=1,
            description="steps of a grid, of the longest stable one; 0.8",
        ),
    ] = None
