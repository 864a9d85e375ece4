"""castin2025, Figure 6(a), which repeats Figure 2(d)."""

from experiments.covariances.disc import castin2025_fig2d
from experiments.covariances.figures import make_draw, reprinted

EXPERIMENT = reprinted(
    castin2025_fig2d.EXPERIMENT,
    "castin2025, Figure 6(a), as 2(d)",
    make_draw("disc", "Figure 6(a), softmax, generic parameters"),
)
