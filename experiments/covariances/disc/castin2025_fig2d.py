"""castin2025, Figure 2(d): softmax, generic parameters."""

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.parameters import P5
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "disc",
    "castin2025, Figure 2(d)",
    description=(
        "Most paths gather along an arc and end together at the right; those that "
        "start in a strip at the left escape to another point."
    ),
    title="Figure 2(d), softmax, generic parameters",
    claim=(
        "For generic parameters some softmax covariances converge and others blow up, "
        "depending on their start."
    ),
    recipe=Recipe(
        text={**P5, "starts": "grid:30"},
        rule=Rule(dt=0.003, rest=0.0001, bound=1000.0),
        code={"epsilon": 2**0.5},
        finer=16,
    ),
)
