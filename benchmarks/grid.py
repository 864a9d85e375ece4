"""Plane densities, beside the arithmetic they cannot do without."""

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
    says=(
        "A normal density on `n × n` cells, moved for so many steps of three stages "
        "each. The floor is the matrix products of the stages alone, at the rate of a "
        "large one."
    ),
    trials=_trials,
)
