"""castin2025, Figure 1(d): softmax, generic parameters; the printed panel shows L2."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.measurements import compare_l2
from experiments.covariances.parameters import P3
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "cone",
    "castin2025, Figure 1(d)",
    description=(
        "Paths fall to the surface and end along two of its lines, or near the tip."
    ),
    title="Figure 1(d), softmax, generic parameters",
    claim=(
        "For generic parameters softmax covariances converge to limits of low rank. "
        "The printed panel shows L2."
    ),
    recipe=Recipe(
        text={**P3, "starts": "grid:20"},
        rule=Rule(dt=0.01, rest=1e-7, bound=1e3),
        code={"epsilon": 2**0.5},
    ),
    extra=compare_l2,
    caption=(
        "The printed panel shows the data of L2, whose final covariances differ from "
        "those of softmax by {l2[distance][median]:.2g} in the median and at most "
        "{l2[distance][max]:.2g}, in units of the initial trace."
    ),
)
