"""castin2025, Figure 4(a), which repeats Figure 1(a)."""

from experiments.covariances.cone import castin2025_fig1a
from experiments.covariances.figures import make_draw, reprinted

EXPERIMENT = reprinted(
    castin2025_fig1a.EXPERIMENT,
    "castin2025, Figure 4(a), as 1(a)",
    make_draw("cone", "Figure 4(a), softmax"),
)
