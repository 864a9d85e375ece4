"""Keys of the final time and of the frame times."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from ._grid import Strict
from ._keys import Key

MOST_FRAMES = 10_000_000  # largest number of frames; their times take 80 MB
ENDS = "a sweep stores only the final states of its flows"


class TimesSpec(Strict):
    """The keys of the final time and of the frame times."""

    @property
    def frame_spacing(self) -> str:
        """The spacing of the frame times, which is logarithmic in arclength."""
        is_default = "spacing" not in self.model_fields_set
        return "log" if is_default and self.clock is not None else self.spacing

    t: Annotated[
        PositiveFloat,
        Key(
            group="Time",
            replaces=("times",),
            enters="times",
            label="final time $t$",
            most_used=True,
        ),
    ] = 10.0
    """final time"""

    frames: Annotated[
        int,
        Key(
            group="Time",
            replaces=("times",),
            no_axis=ENDS,
            no_page="it draws while it integrates, and stores no frames",
        ),
        Field(ge=2, le=MOST_FRAMES),
    ] = 101
    """number of stored frames"""

    spacing: Annotated[
        Literal["even", "log", "both"],
        Key(
            is_rare=True,
            group="Time",
            replaces=("times",),
            no_axis=ENDS,
            no_page="it draws while it integrates, and stores no frames",
        ),
    ] = "even"
    """spacing of the frame times: `even`, `log` (over four decades; in arclength from
    0.01 on) or `both`"""

    clock: Annotated[
        Literal["arclength"] | None,
        Key(
            is_rare=True,
            group="Time",
            required_measure=("points", "applies only to tokens"),
            brings=(
                "adaptive steps of one attention, without mask or heads",
                (
                    "dt",
                    "solver",
                    "noise",
                    "steady",
                    "bound",
                    "mask",
                    "heads",
                    "drift",
                    "layers",
                    "terms",
                    "context",
                    "model",
                    "draws",
                    "flow_of",
                    "normalise",
                    "redraw",
                ),
            ),
            no_axis="it chooses the method",
            no_page="it integrates in time",
        ),
        Field(examples=["arclength"]),
    ] = None
    """variable of the steps: `arclength`, for clusters that meet at times such as 1e143
    (`softmax` or `exp` alone); time if absent"""

    merge: Annotated[
        PositiveFloat | None,
        Key(is_rare=True, group="Time", no_page="it integrates in time"),
        Field(examples=[1e-7], lt=1),
    ] = None
    """distance, relative to the initial size, at which tokens merge under
    `clock = arclength`; 1e-7 if absent"""

    times: Annotated[
        list[float] | None,
        Key(
            group="Time",
            brings=("all frame times", ("t", "frames", "spacing")),
            replaces=("t", "frames", "spacing"),
            enters="times",
            is_not_inherited=True,
            no_page="it ends at `--t`",
        ),
        Field(examples=[[0.0, 0.5, 1.0, 5.0]], max_length=MOST_FRAMES),
    ] = None
    """frame times, as a list such as 0,0.5,1; alternative to t, frames and spacing"""
