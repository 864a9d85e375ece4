"""castin2025, Figure 4(c): two heads."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import figure_of
from experiments.covariances.parameters import P1, gaussian_entries
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = figure_of(
    "cone",
    "castin2025, Figure 4(c)",
    seen="All paths swing to one side, and leave along the surface.",
    title="Figure 4(c), two heads",
    claim=(
        "Where A + Aᵀ is negative definite, multi-head covariances go to zero, "
        "whatever V. As printed; false for V with Gaussian entries."
    ),
    recipe=Recipe(
        text={**gaussian_entries(), "starts": "grid:10:0.5", "heads": 2},
        rule=Rule(dt=0.3, rest=1e-05, bound=1000.0),
        code={**P1},
    ),
)
