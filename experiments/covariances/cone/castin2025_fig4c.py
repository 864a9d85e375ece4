"""castin2025, Figure 4(c): two heads."""

from experiments.covariances.definite import (
    count_definite_draws,
    with_corrected_reading,
)
from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P1, gaussian_entries
from meanfield.theorems.covariances.clipped_euler import Rule

RECIPE = Recipe(
    text={**gaussian_entries(), "starts": "grid:10:0.5", "heads": 2},
    rule=Rule(dt=0.3, rest=1e-05, bound=1000.0),
    code={**P1},
)

PRINTED = covariance_figure(
    "cone",
    "castin2025, Figure 4(c)",
    description="All paths swing to one side, and leave along the surface.",
    title="Figure 4(c), two heads",
    claim=(
        "Where A + Aᵀ is negative definite, multi-head covariances go to zero, "
        "whatever V. As printed; false for V with Gaussian entries."
    ),
    recipe=RECIPE,
)

EXPERIMENT = with_corrected_reading(
    PRINTED,
    RECIPE,
    description="All paths run down to the tip of the cone, which is zero.",
    claim=(
        "Where K = -Q is invertible and V is symmetric and positive definite, "
        "multi-head covariances never blow up, and go to zero if no other "
        "covariance is at rest."
    ),
    extra=count_definite_draws,
    caption=(
        "Rays of covariances at rest: {others[n_rays]} here, and one in "
        "{others[with_rest]} of {others[draws]} other draws with VVᵀ. Until t = "
        "{others[t]:.0e} an isotropic start of trace one comes to rest in "
        "{others[to_rest_with_rest]} of these, goes to zero in "
        "{others[to_zero_without_rest]} of the others, and blows up in "
        "{others[blow_ups]}."
    ),
)
