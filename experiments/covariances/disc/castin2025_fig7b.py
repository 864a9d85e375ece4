"""castin2025, Figure 7(b): Sinkhorn."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P4
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 7(b)",
    description=(
        "Straight paths fan out from the lower right, as for softmax, and end all "
        "around the rim."
    ),
    title="Figure 7(b), Sinkhorn",
    claim=(
        "Where A + Aᵀ is positive definite and V = I, Sinkhorn covariances diverge, "
        "but not in finite time."
    ),
    recipe=Recipe(
        text={**P4, "starts": "grid:40", "attention": "sinkhorn"},
        rule=Rule(dt=0.01, rest=1e-05, bound=10000.0),
    ),
)
