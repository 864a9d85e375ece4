r"""Functions of arrays that compute sums of exponentials of inner products.

For queries $q_i$ and keys $k_j$ with weights $w_j$, this module computes
$\log\sum_j w_j e^{q_i\cdot k_j}$, means with the weights $w_j e^{q_i\cdot k_j}$, and
Sinkhorn potentials. All functions use $O(m + n)$ memory, support `jit`, `vmap` and
derivatives in both modes, and take linear time if `plan` finds cells.
"""

from ._functions import log_sum_exp as log_sum_exp
from ._functions import tilted_mean as tilted_mean
from ._planning import plan as plan
from ._potentials import Potentials as Potentials
from ._potentials import sinkhorn as sinkhorn
