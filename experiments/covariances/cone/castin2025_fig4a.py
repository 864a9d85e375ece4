"""castin2025, Figure 4(a): the same as Figure 1(a)."""

from dataclasses import replace

from experiments.covariances.cone import castin2025_fig1a
from experiments.covariances.figures import drawing

EXPERIMENT = replace(
    castin2025_fig1a.EXPERIMENT,
    source="castin2025, Figure 4(a), as 1(a)",
    draw=drawing("cone", "Figure 4(a), softmax"),
)
