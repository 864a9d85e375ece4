r"""castin2025, Figure 3: ranks of the limits of softmax covariances.

With $A = -Q^\top Q$ and $V \succ 0$ every limit has rank $d - \mathrm{rk}\,Q = \lceil
d/2\rceil$ (`flows.py`), whereas the printed caption has $\leq \lfloor d/2\rfloor$
(ERRATA C8).
"""

from experiments.ranks.independent import independent
from experiments.ranks.panels import rank_figure
from experiments.ranks.samples import Recipe

SOURCE = "castin2025, Figure 3"
RECIPE = Recipe(
    "softmax",
    {"identity": {3: 0.09, 4: 0.05, 5: 0.02}, "random": {3: 0.09, 4: 0.06, 5: 0.02}},
)
DESCRIPTION = (
    "Bars count the ranks of limits, and the samples without a limit. For d = 3 more "
    "than half of the samples converge, all to rank two (dotted); for d = 4 and 5 "
    "nearly all grow, solved (blue) and by published steps (orange)."
)

EXPERIMENT = rank_figure(SOURCE, RECIPE, independent(SOURCE, RECIPE, DESCRIPTION))
