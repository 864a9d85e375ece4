"""castin2025, Figure 1(a): softmax."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import figure_of
from experiments.covariances.measurements import over_random_values
from experiments.covariances.parameters import P1, gaussian_entries
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = figure_of(
    "cone",
    "castin2025, Figure 1(a)",
    seen="All paths turn upwards and leave through the top, side by side.",
    title="Figure 1(a), softmax",
    claim=(
        "Where A + Aᵀ is negative definite, softmax covariances go to zero, whatever "
        "V. As printed; false for V with Gaussian entries."
    ),
    recipe=Recipe(
        text={**gaussian_entries(), "starts": "grid:10:0.5"},
        rule=Rule(dt=0.3, rest=1e-05, bound=1000.0),
        code={**P1, "epsilon": 2**0.5},
    ),
    extra=over_random_values,
    caption=(
        "The text draws Q and V at random, these only once: of {random[draws]} other "
        "draws {random[grow]} let an isotropic start of trace one grow by "
        "t = {random[t]:.3g}, against the claim, and {random[shrink]} let it shrink."
    ),
)
