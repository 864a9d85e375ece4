"""castin2025, Figure 6(c): two heads, as printed with one."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import figure_of
from experiments.covariances.measurements import against_one_head
from experiments.covariances.parameters import P5
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = figure_of(
    "disc",
    "castin2025, Figure 6(c)",
    seen="The endpoints lie along an arc from rim to rim; none blows up.",
    title="Figure 6(c), two heads, generic parameters",
    claim=(
        "For the parameters of Figure 6(a), multi-head covariances behave like those "
        "of softmax. The printed panel has one head, which is softmax."
    ),
    recipe=Recipe(
        text={**P5, "starts": "grid:30", "heads": 2},
        rule=Rule(dt=0.002, rest=1e-4, bound=1e3),
        code={"heads": 1, "epsilon": 2**0.5},
    ),
    extra=against_one_head,
    caption=(
        "With one head the endings are {one_head[endings]}, as for softmax, whose "
        "right-hand side differs by {one_head[gap]:.0f}."
    ),
)
