"""castin2025, Figure 2(c): L2."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P4, P4_Q, scaled
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 2(c)",
    description="Paths bend towards the rim on the left and below; none blows up.",
    title="Figure 2(c), L2",
    claim=(
        "Where A + Aᵀ is positive definite and V = I, L2 covariances diverge, but not "
        "in finite time."
    ),
    recipe=Recipe(
        text={**P4, "starts": "grid:40", "attention": "l2"},
        rule=Rule(dt=0.001, rest=1e-05, bound=10000.0),
        code={"Q": scaled(P4_Q, 2**-0.5)},
    ),
)
