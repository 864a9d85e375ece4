r"""castin2025, Figure 5(b): L2 limits of rank one, on the same line.

With $A = -2qq^\top$, $B = 2qq^\top$ and $V = I$, the factor $(I + \Sigma B)^{-1}$ only
divides $\Sigma q$ by $1 + 2q^\top\Sigma q$. So L2 covariances follow the same paths as
softmax covariances, only more slowly: $\Sigma^{-1}$ also moves by multiples of
$qq^\top$, and the limits are the same.
"""

import numpy as np

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.measurements import distance_to_line
from experiments.covariances.parameters import P2, P2_Q, scaled
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "cone",
    "castin2025, Figure 5(b)",
    description="All paths run down to the golden line, as for softmax.",
    title="Figure 5(b), L2, A of rank one",
    claim=(
        "Where A + Aᵀ is negative semidefinite of rank one and V = I, L2 covariances "
        "converge to limits of rank one, on the line of Figure 1(b)."
    ),
    recipe=Recipe(
        text={**P2, "starts": "grid:10:0.5", "attention": "l2"},
        rule=Rule(dt=0.5, rest=1e-4, bound=1e3),
        code={"Q": scaled(P2_Q, 2**-0.5)},
    ),
    extra=lambda findings: distance_to_line(findings, np.array(P2_Q[0])),
    caption=(
        "At the end the distance to the closed form of the limits is at most "
        "{limit[distance][max]:.1e} for the solved covariances, and "
        "{limit[distance_of_code][max]:.1e} for those of the script."
    ),
)
