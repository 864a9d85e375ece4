"""Case `grid`: flows of densities in the plane; the floor counts matrix products."""

from ._trial import OURS, Case, Size, Trial

STEPS = 200
VARIANTS = ("softmax", "l2")


def _trials(size: Size) -> list[Trial]:
    cells, steps = ((16,), 3) if size == "quick" else ((256, 128, 64), STEPS)
    return [
        Trial(
            "grid",
            "ours",
            "densities:steps",
            OURS,
            "float64",
            n,
            2,
            problem=f"{variant}, {steps} steps",
            settings={"attention": variant, "steps": steps},
        )
        for variant in VARIANTS
        for n in cells
    ]


CASE = Case(
    description=(
        "A normal density on `n × n` cells, integrated by steps of three stages. The "
        "floor is the time for the matrix products of the stages at the rate of a "
        "large product."
    ),
    trials=_trials,
)
