"""Sums between cells: linear in the number of tokens, with a bound on the error."""

from ._bound import growth as growth
from ._bound import largest_reach as largest_reach
from ._bound import relative_error as relative_error
from ._cells import Cells as Cells
from ._cells import Fenced as Fenced
from ._frame import framed as framed
from ._layout import DIMENSIONS as DIMENSIONS
from ._layout import PAIRS as PAIRS
from ._layout import ROOM as ROOM
from ._layout import Layout as Layout
from ._layout import cheapest as cheapest
from ._layout import typical as typical
from ._survey import Findings as Findings
from ._survey import Survey as Survey
