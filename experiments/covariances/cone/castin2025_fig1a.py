"""castin2025, Figure 1(a): softmax covariances, which are claimed to go to zero."""

from experiments.covariances.definite import (
    count_definite_draws,
    with_corrected_reading,
)
from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.measurements import count_random_values
from experiments.covariances.parameters import P1, gaussian_entries
from meanfield.theorems.covariances.clipped_euler import Rule

RECIPE = Recipe(
    text={**gaussian_entries(), "starts": "grid:10:0.5"},
    rule=Rule(dt=0.3, rest=1e-05, bound=1000.0),
    code={**P1, "epsilon": 2**0.5},
)

PRINTED = covariance_figure(
    "cone",
    "castin2025, Figure 1(a)",
    description="All paths turn upwards and leave through the top, almost parallel.",
    title="Figure 1(a), softmax",
    claim=(
        "Where A + Aᵀ is negative definite, softmax covariances go to zero, whatever "
        "V. As printed; false for V with Gaussian entries."
    ),
    recipe=RECIPE,
    extra=count_random_values,
    caption=(
        "For {random[grow]} of {random[draws]} other random draws of Q and V an "
        "isotropic start of trace one has grown at t = {random[t]:.3g}, against the "
        "claim."
    ),
)

EXPERIMENT = with_corrected_reading(
    PRINTED,
    RECIPE,
    description="All paths run down to the tip of the cone, which is zero.",
    claim=(
        "Where A + Aᵀ is negative definite and V is symmetric and positive "
        "definite, softmax covariances go to zero."
    ),
    extra=count_definite_draws,
    caption=(
        "For {others[to_zero]} of {others[draws]} other draws with VVᵀ an isotropic "
        "start of trace one goes to zero until t = {others[t]:.0e}, and for "
        "{others[blow_ups]} it blows up."
    ),
)
