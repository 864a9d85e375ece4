"""castin2025, Figure 5(c): L2, generic parameters."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P3, P3_Q, scaled
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "cone",
    "castin2025, Figure 5(c)",
    description=(
        "Paths fall to the surface and end along two of its lines, or near the tip."
    ),
    title="Figure 5(c), L2, generic parameters",
    claim=(
        "For generic parameters, L2 covariances converge to limits of low rank, close "
        "to those of softmax."
    ),
    recipe=Recipe(
        text={**P3, "starts": "grid:20", "attention": "l2"},
        rule=Rule(dt=0.01, rest=1e-07, bound=1000.0),
        code={"Q": scaled(P3_Q, 2**-0.5)},
    ),
)
