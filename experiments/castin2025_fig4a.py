"""castin2025, Figure 4(a): the same as Figure 1(a)."""

from dataclasses import replace

from experiments import castin2025_fig1a
from experiments._covariances import drawing

EXPERIMENT = replace(
    castin2025_fig1a.EXPERIMENT,
    source="castin2025, Figure 4(a), as 1(a)",
    draw=drawing("cone", "Figure 4(a), softmax"),
)
