"""castin2025, Figure 7(a): Sinkhorn."""

from experiments.covariances.definite import with_corrected_reading
from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P1, gaussian_entries
from meanfield.theorems.covariances.clipped_euler import Rule

RECIPE = Recipe(
    text={**gaussian_entries(), "starts": "grid:10:0.5", "attention": "sinkhorn"},
    rule=Rule(dt=0.5, rest=1e-05, bound=1000.0),
    code={**P1},
)

PRINTED = covariance_figure(
    "cone",
    "castin2025, Figure 7(a)",
    description=(
        "All paths turn upwards and leave almost parallel, but in infinite time."
    ),
    title="Figure 7(a), Sinkhorn",
    claim=(
        "Where A + Aᵀ is negative definite, covariances need not go to zero under "
        "Sinkhorn attention (section 4.5, item 1)."
    ),
    recipe=RECIPE,
)

EXPERIMENT = with_corrected_reading(
    PRINTED,
    RECIPE,
    description="All paths run down to the tip of the cone, which is zero.",
    claim=(
        "Where K = -Q is invertible and V is symmetric and positive definite, "
        "Sinkhorn covariances go to zero."
    ),
)
