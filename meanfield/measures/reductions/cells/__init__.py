"""Sums between cells: linear in the number of tokens, with a bound on the error."""

from ._bound import growth as growth
from ._bound import largest_reach as largest_reach
from ._bound import relative_error as relative_error
from ._cells import Cells as Cells
from ._cells import Fenced as Fenced
from ._cells import Unchecked as Unchecked
from ._cells import unchecked as unchecked
from ._choice import Extent as Extent
from ._choice import chosen as chosen
from ._choice import typical as typical
from ._earlier import seconds_in_order as seconds_in_order
from ._exponential import Layout as Layout
from ._exponential import cheapest as cheapest
from ._frame import framed as framed
from ._gauss import GaussLayout as GaussLayout
from ._gauss import Nearness as Nearness
from ._gauss import cheapest_gauss as cheapest_gauss
from ._gauss_bound import WIDER as WIDER
from ._gauss_bound import missed_share as missed_share
from ._layout import DIMENSIONS as DIMENSIONS
from ._layout import PAIRS as PAIRS
from ._layout import ROOM as ROOM
from ._layout import AbstractLayout as AbstractLayout
from ._survey import Findings as Findings
from ._survey import Survey as Survey
from ._survey import extent as extent
