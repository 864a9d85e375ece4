"""What a spec says of time: when it ends, and when it is looked at."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from ._grid import Strict
from ._keys import Key

MOST_FRAMES = 10_000_000  # their times alone are 80 MB
ENDS = "a sweep keeps only where its flows end"


class TimesSpec(Strict):
    """The times of the frames."""

    t: Annotated[
        PositiveFloat,
        Key(
            group="Time",
            replaces=("times",),
            enters="times",
            label="final time $t$",
            most_used=True,
        ),
        Field(description="final time"),
    ] = 10.0
    frames: Annotated[
        int,
        Key(
            group="Time",
            replaces=("times",),
            no_axis=ENDS,
            no_page="it draws while it integrates",
        ),
        Field(ge=2, le=MOST_FRAMES, description="number of frames"),
    ] = 101
    spacing: Annotated[
        Literal["even", "log", "both"],
        Key(
            group="Time",
            replaces=("times",),
            no_axis=ENDS,
            no_page="it draws while it integrates",
        ),
        Field(description="of the frames: `even`, `log` over four decades, or `both`"),
    ] = "even"
    times: Annotated[
        list[float] | None,
        Key(
            group="Time",
            brings=("the times of all frames", ("t", "frames", "spacing")),
            replaces=("t", "frames", "spacing"),
            enters="times",
            left_behind=True,
            no_page="it ends at `--t`",
        ),
        Field(
            examples=[[0.0, 0.5, 1.0, 5.0]],
            max_length=MOST_FRAMES,
            description="times of the frames, instead",
        ),
    ] = None
