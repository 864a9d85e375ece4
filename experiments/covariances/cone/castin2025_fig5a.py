"""castin2025, Figure 5(a), which repeats Figure 4(b)."""

from experiments.covariances.cone import castin2025_fig4b
from experiments.covariances.figures import make_draw, reprinted

EXPERIMENT = reprinted(
    castin2025_fig4b.EXPERIMENT,
    "castin2025, Figure 5(a), as 4(b)",
    make_draw("cone", "Figure 5(a), L2"),
)
