"""What a spec says of energies: what it observes, and what it descends."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from meanfield.spec._early import distinct, names_in
from meanfield.spec._grid import Strict
from meanfield.spec._keys import Key
from meanfield.spec._times import ENDS

Names = Annotated[
    list[str] | None,
    BeforeValidator(names_in),
    AfterValidator(lambda names: names and distinct(names)),
]


class EnergySpec(Strict):
    """What is observed along a flow, and the energy whose gradient flow it is."""

    flow_of: Annotated[
        Names,
        Key(
            names="energies",
            group="Attention",
            brings=(
                "its own velocity, down an energy",
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
            titled=True,
            no_page="it has attention alone",
        ),
        Field(
            examples=[["interaction"]],
            min_length=1,
            description="move by the gradient flow of an energy, or of the sum of "
            "several, instead of an attention; see `list energies`",
        ),
    ] = None
    observe: Annotated[
        Names,
        Key(names="energies", no_axis=ENDS, no_page="it records no energies"),
        Field(
            examples=[["energy"]],
            min_length=1,
            description="recorded at each frame: `energy`, or names of `list energies`",
        ),
    ] = None
