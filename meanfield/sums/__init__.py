r"""Sums over exponentials of inner products, as functions of arrays.

For queries $q_i$ and keys $k_j$ with weights $w_j$: $\log\sum_j w_j e^{q_i\cdot k_j}$,
means under these weights, and Sinkhorn potentials. All use $O(m + n)$ memory, support
`jit`, `grad` (both modes) and `vmap`, and take linear time where `plan` finds cells.
"""

from ._functions import log_sum_exp as log_sum_exp
from ._functions import tilted_mean as tilted_mean
from ._planning import plan as plan
from ._potentials import Potentials as Potentials
from ._potentials import sinkhorn as sinkhorn
