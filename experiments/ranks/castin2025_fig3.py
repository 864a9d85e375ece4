r"""castin2025, Figure 3: ranks of the limits of softmax covariances.

With $A = -Q^\top Q$ and $V \succ 0$ every limit has rank $d - \mathrm{rk}\,Q = \lceil
d/2\rceil$ (`flows.py`), where the caption has $\leq \lfloor d/2\rfloor$ (ERRATA C8).
"""

from experiments.ranks.panels import figure_of
from experiments.ranks.samples import Recipe

EXPERIMENT = figure_of(
    "castin2025, Figure 3",
    Recipe(
        "softmax",
        {
            "identity": {3: 0.09, 4: 0.05, 5: 0.02},
            "random": {3: 0.09, 4: 0.06, 5: 0.02},
        },
    ),
)
