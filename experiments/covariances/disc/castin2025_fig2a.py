"""castin2025, Figure 2(a): softmax."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P4
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 2(a)",
    description=(
        "Straight paths fan out from the lower right and end all around the rim."
    ),
    title="Figure 2(a), softmax",
    claim=(
        "Where A + Aᵀ is positive definite and V = I, softmax covariances blow up in "
        "finite time."
    ),
    recipe=Recipe(
        text={**P4, "starts": "grid:40"},
        rule=Rule(dt=0.01, rest=0.0001, bound=1000.0),
        code={"epsilon": 2**0.5},
    ),
)
