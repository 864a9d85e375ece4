"""How sums along a flow are executed: planned at its start, watched, given room."""

from ._cell_plans import has_bound as has_bound
from ._planning import interpolations as interpolations
from ._planning import missed as missed
from ._planning import planned as planned
from ._planning import roomier as roomier
from ._planning import unplanned as unplanned
