"""castin2025, Figure 5(a): the same as Figure 4(b)."""

from dataclasses import replace

from experiments.covariances.cone import castin2025_fig4b
from experiments.covariances.figures import drawing

EXPERIMENT = replace(
    castin2025_fig4b.EXPERIMENT,
    source="castin2025, Figure 5(a), as 4(b)",
    draw=drawing("cone", "Figure 5(a), L2"),
)
