"""A density on a grid: its cells, its box, its fluxes and where it is probed."""

from ._boxes import AbstractBox as AbstractBox
from ._boxes import AffineBox as AffineBox
from ._boxes import FixedBox as FixedBox
from ._boxes import ScaledBox as ScaledBox
from ._checks import COARSE as COARSE
from ._checks import FEWEST as FEWEST
from ._checks import MISSING as MISSING
from ._checks import check_edges as check_edges
from ._checks import roughness as roughness
from ._grid import TURN as TURN
from ._grid import Grid as Grid
from ._probes import AbstractProbe as AbstractProbe
from ._probes import EveryFace as EveryFace
from ._probes import Nodes as Nodes
from ._state import GridState as GridState
from ._upright import check_upright as check_upright
