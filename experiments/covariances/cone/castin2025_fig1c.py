r"""castin2025, Figure 1(c): the limits of two heads, one of them empty, fill a plane.

Q has a single row, so the second head has none, and the figure shows one head with the
value matrix $e_1 e_1^\top$. Its right-hand side $\Sigma' = -e_1 (q^\top\Sigma e_1)\,
q^\top\Sigma + (\cdot)^\top$ conserves $\Sigma_{22}$, and vanishes on the plane
$q^\top\Sigma e_1 = 0$ through the apex of the cone.
"""

import numpy as np

from experiments.covariances.families import Recipe
from experiments.covariances.figures import covariance_figure
from experiments.covariances.measurements import distance_to_plane
from experiments.covariances.parameters import P2, P2_Q
from meanfield.theorems.covariances.clipped_euler import Rule

EXPERIMENT = covariance_figure(
    "cone",
    "castin2025, Figure 1(c)",
    description="All paths end on the golden plane, spread over it.",
    title="Figure 1(c), two heads, the second empty",
    claim=(
        "Where A + Aᵀ is negative semidefinite of rank one, the limits of multi-head "
        "covariances fill a plane of the cone."
    ),
    recipe=Recipe(
        text={**P2, "V": [[1.0, 0.0], [0.0, 0.0]], "starts": "grid:10:0.5"},
        rule=Rule(dt=0.5, rest=1e-4, bound=1e3),
    ),
    extra=lambda findings: distance_to_plane(findings, np.array(P2_Q[0])),
    caption=(
        "The second head has {second_head[rows]} rows of Q and K, so its right-hand "
        "side is {second_head[rate]:.0f}. The limits lie in a plane up to "
        "{plane[flatness]:.1e} (ratio of the smallest and largest singular values of "
        "their coordinates), at an angle of {plane[angle]:.1e} rad to the closed form."
    ),
)
