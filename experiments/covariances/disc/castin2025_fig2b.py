"""castin2025, Figure 2(b): two heads."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P4
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 2(b)",
    description=(
        "Paths bend to two points of the rim; nearly all take the one on the left."
    ),
    title="Figure 2(b), two heads",
    claim=(
        "Where A + Aᵀ is positive definite and V = I, multi-head covariances blow up "
        "in finite time."
    ),
    recipe=Recipe(
        text={**P4, "starts": "grid:40", "heads": 2},
        rule=Rule(dt=0.002, rest=0.0001, bound=1000.0),
    ),
)
