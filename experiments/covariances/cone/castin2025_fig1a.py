"""castin2025, Figure 1(a): softmax."""

from experiments.covariances.definite import converging, over_definite_draws
from experiments.covariances.families import Recipe
from experiments.covariances.figures import figure_of
from experiments.covariances.measurements import over_random_values
from experiments.covariances.parameters import P1, gaussian_entries
from meanfield.theorems.covariances.clipped_euler import Rule

RECIPE = Recipe(
    text={**gaussian_entries(), "starts": "grid:10:0.5"},
    rule=Rule(dt=0.3, rest=1e-05, bound=1000.0),
    code={**P1, "epsilon": 2**0.5},
)

PRINTED = figure_of(
    "cone",
    "castin2025, Figure 1(a)",
    seen="All paths turn upwards and leave through the top, almost parallel.",
    title="Figure 1(a), softmax",
    claim=(
        "Where A + Aᵀ is negative definite, softmax covariances go to zero, whatever "
        "V. As printed; false for V with Gaussian entries."
    ),
    recipe=RECIPE,
    extra=over_random_values,
    caption=(
        "Of {random[draws]} other random draws of Q and V, {random[grow]} let an "
        "isotropic start of trace one grow until t = {random[t]:.3g}, against the "
        "claim, and {random[shrink]} let it shrink."
    ),
)

EXPERIMENT = converging(
    PRINTED,
    RECIPE,
    seen="All paths run down to the tip of the cone, which is zero.",
    claim=(
        "Where A + Aᵀ is negative definite and V is symmetric and positive "
        "definite, softmax covariances go to zero."
    ),
    extra=over_definite_draws,
    caption=(
        "Of {others[draws]} other draws, also with VVᵀ, {others[to_zero]} send an "
        "isotropic start of trace one to zero until t = {others[t]:.0e}, and "
        "{others[blow_ups]} let it blow up."
    ),
)
