"""Sums between cells: linear in the number of tokens, with a bound on the error."""

from ._bound import growth as growth
from ._bound import largest_reach as largest_reach
from ._bound import relative_error as relative_error
from ._cells import Cells as Cells
from ._frame import framed as framed
from ._layout import Layout as Layout
from ._layout import cheapest as cheapest
