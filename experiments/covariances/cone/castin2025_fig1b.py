r"""castin2025, Figure 1(b): softmax limits of rank one, on a line.

With $A = -qq^\top$ and $V = I$ the inverse moves on a line, $\Sigma(t)^{-1} =
\Sigma_0^{-1} + 2tqq^\top$ (Prop. 4.4; the bandwidth of the script only slows down
time). So the limit is $\Sigma_* = ww^\top / (w^\top\Sigma_0^{-1}w)$ for a unit vector
$w\perp q$. In the paper, the text has a random V and the caption has V = I; both
pictures here use V = I.
"""

import numpy as np

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.measurements import distance_to_line
from experiments.covariances.parameters import P2, P2_Q
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "cone",
    "castin2025, Figure 1(b)",
    description="All paths run down to the golden line, a ray of rank one.",
    title="Figure 1(b), softmax, A of rank one",
    claim=(
        "Where A + Aᵀ is negative semidefinite of rank one and V = I, softmax "
        "covariances converge to limits of rank one, on a line of the cone."
    ),
    recipe=Recipe(
        text={**P2, "starts": "grid:10:0.5"},
        rule=Rule(dt=0.5, rest=1e-4, bound=1e3),
        code={"epsilon": 2**0.5},
    ),
    extra=lambda findings: distance_to_line(findings, np.array(P2_Q[0])),
    caption=(
        "At the end the distance to the closed form of the limits is at most "
        "{limit[distance][max]:.1e} for the solved covariances, and "
        "{limit[distance_of_code][max]:.1e} for those of the script."
    ),
)
