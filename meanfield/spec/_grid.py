"""Keys of a grid: cells, box and time steps."""

import math
from dataclasses import replace
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

# A positive number that fits into a 64-bit integer.
Count = Annotated[int, Field(gt=0, lt=2**63)]


GRID_ONLY = ("grid", "applies only to grids")


class Strict(BaseModel):
    """A frozen model that rejects unknown keys and numbers that are not finite."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_absent(cls, values: Any) -> Any:
        """Drops JSON's `null`: pydantic would apply length limits to `None`."""
        if not isinstance(values, dict):
            return values
        absent = {k for k, field in cls.model_fields.items() if field.default is None}
        return {k: v for k, v in values.items() if v is not None or k not in absent}


def _cell_count(value: Any) -> Any:
    """Checks a number of cells, or a list with one for each of two axes."""
    counts = value if isinstance(value, list) else [value]
    whole = all(type(n) is int and 0 < n < 2**63 for n in counts)
    if not (whole and 0 < len(counts) <= 2):
        raise ValueError("must be a whole number of cells, or two such numbers")
    return value


def _intervals(value: Any) -> Any:
    """Checks the ends of an interval, or of one interval for each of two axes."""
    rows = value if isinstance(value, list) else [value]
    pairs = [row if isinstance(row, list) else rows for row in rows]
    good = all(len(p) == 2 and all(map(_is_finite, p)) for p in pairs)
    if not (rows and good and all(p[0] < p[1] for p in pairs)):
        raise ValueError("must be an increasing pair LOW,HIGH, or two such pairs")
    return value


def _is_finite(x: object) -> bool:
    if isinstance(x, bool) or not isinstance(x, int | float):
        return False
    return math.isfinite(x)


RARE = Key(group="Grid", required_measure=GRID_ONLY, is_rare=True)
RARE_INITIAL = replace(RARE, is_not_inherited=True)


class GridSpec(Strict):
    """The keys that apply only to densities on a grid.

    Examples:
        >>> from meanfield.spec import GridSpec
        >>> GridSpec(cells=400).box, "cells" in GridSpec.model_fields
        (None, True)
    """

    cells: Annotated[
        int | list[int] | None,
        BeforeValidator(_cell_count),
        Key(group="Grid", required_measure=GRID_ONLY, is_not_inherited=True),
        Field(examples=[800]),
    ] = None
    """number of cells: one number for all axes, or a list with one for each; 400 on the
    line and 128 × 128 in the plane if absent, or 200 and 32 × 32 with a mask"""

    half_width: Annotated[
        PositiveFloat | None,
        RARE_INITIAL,
        Field(examples=[16.0]),
    ] = None
    """half-width of the box, in standard deviations of the initial measure; for a
    normal, 12 on the line and 8 in the plane if absent"""

    domain: Annotated[
        list[float] | list[list[float]] | None,
        BeforeValidator(_intervals),
        Key(group="Grid", required_measure=GRID_ONLY, is_not_inherited=True),
        Field(examples=[[-6.0, 6.0]]),
    ] = None
    """box of the grid, as LOW,HIGH or one pair for each axis: -6,6 or [[-6,6],[-4,4]];
    alternative to half_width, and the box is then `fixed` unless --box is given"""

    grading: Annotated[float, RARE_INITIAL, Field(ge=1)] = 1.0
    """ratio of the widths of the outermost and the innermost cells"""

    box: Annotated[
        Literal["affine", "scaled", "fixed", "closed"] | None,
        RARE,
        Field(examples=["scaled"]),
    ] = None
    """motion of the box: `affine` (with the covariance), `scaled` (with the standard
    deviation along each axis), `fixed`, or `closed` (fixed, without flux through its
    walls); `affine` if absent, `scaled` under noise or a gradient flow, `fixed` with
    domain"""

    bandwidth: Annotated[
        PositiveFloat | None,
        RARE_INITIAL,
        Field(examples=[0.2]),
    ] = None
    """bandwidth of the kernel density estimate of tokens from a file or a run, in
    standard deviations; Scott's rule if absent"""

    positions: Annotated[Count | None, RARE_INITIAL, Field(examples=[16])] = None
    """number of positions of a masked grid, with a layer of cells for each; 16 if
    absent"""

    cfl: Annotated[float | None, RARE, Field(examples=[0.5], gt=0, le=1)] = None
    """CFL number: the time step as a fraction of the largest stable step of the grid;
    0.8 if absent"""
