"""Configuration keys that name energies, to record them or to follow gradient flows."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from meanfield.frame_numbers import is_frame_number
from meanfield.spec._grid import Strict
from meanfield.spec._keys import SPHERES, Key
from meanfield.spec._stops import check_distinct, names_in
from meanfield.spec._times import ENDS

Names = Annotated[
    list[str] | None,
    BeforeValidator(names_in),
    AfterValidator(check_distinct),
]


class EnergySpec(Strict):
    """The keys that name energies: to record them, or to run their gradient flow."""

    flow_of: Annotated[
        Names,
        Key(
            names="energies",
            group="Attention",
            excluded_measures=dict.fromkeys(SPHERES, "has no forces between cells"),
            brings=(
                "the velocity, a gradient flow",
                (
                    "attention",
                    "V",
                    "heads",
                    "mask",
                    "iterations",
                    "context",
                    "drift",
                    "layers",
                    "depth",
                    "terms",
                    "model",
                    "text",
                    "projected",
                ),
            ),
            replaces=("attention", "V", "heads", "mask", "iterations", "context"),
            is_in_title=True,
            no_page="it has attention only",
        ),
        Field(examples=[["interaction"]], min_length=1),
    ] = None
    """energy, or several to be summed, whose gradient flow moves the measure instead of
    an attention; see `list energies`"""

    observe: Annotated[
        Names,
        Key(names="energies frame-numbers", no_axis=ENDS, no_page="it records nothing"),
        Field(examples=[["energy"]], min_length=1),
    ] = None
    """energies recorded at each frame, by name: `energy` (that of the flow), or names
    from `list energies`; numbers of the tokens, such as `pairs:0.999`, see
    `list frame-numbers`; in a sweep `mean`, `covariance`, and numbers of its table"""

    @property
    def recorded_numbers(self) -> tuple[str, ...]:
        """The numbers of the tokens to record at each frame."""
        return tuple(filter(is_frame_number, self.observe or ()))
