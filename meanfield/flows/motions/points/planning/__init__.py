"""Plans for the sums of a flow: made at its start, checked and enlarged on the way."""

from ._cell_plans import has_bound as has_bound
from ._planning import discard_plan as discard_plan
from ._planning import enlarge_plan as enlarge_plan
from ._planning import interpolations as interpolations
from ._planning import plan_sums as plan_sums
from ._planning import sum_convergence as sum_convergence
