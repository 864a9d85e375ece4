"""castin2025, Figure 6(c): two heads; the printed panel has only one head."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.measurements import compare_one_head
from experiments.covariances.parameters import P5
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 6(c)",
    description="The endpoints lie along an arc from rim to rim; none blows up.",
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
    extra=compare_one_head,
    caption=(
        "With one head the endings are {one_head[endings]}, and the right-hand side "
        "differs from that of softmax by {one_head[gap]:.0f}."
    ),
)
