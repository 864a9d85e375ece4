"""castin2025, Figure 6(b): L2, generic parameters."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P3_Q, P5, scaled
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 6(b)",
    description=(
        "Paths gather along an arc and end at the right, or at its other end; none "
        "blows up."
    ),
    title="Figure 6(b), L2, generic parameters",
    claim=(
        "For the parameters of Figure 6(a), L2 covariances do not blow up in finite "
        "time."
    ),
    recipe=Recipe(
        text={**P5, "starts": "grid:30", "attention": "l2"},
        rule=Rule(dt=0.002, rest=0.0001, bound=1000.0),
        code={"Q": scaled(P3_Q, 2**-0.5)},
        finer=16,
    ),
)
