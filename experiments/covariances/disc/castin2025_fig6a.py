"""castin2025, Figure 6(a): the same as Figure 2(d)."""

from dataclasses import replace

from experiments.covariances.disc import castin2025_fig2d
from experiments.covariances.figures import drawing

EXPERIMENT = replace(
    castin2025_fig2d.EXPERIMENT,
    source="castin2025, Figure 6(a), as 2(d)",
    draw=drawing("disc", "Figure 6(a), softmax, generic parameters"),
)
