"""The cells of a density on a grid: their box, their fluxes, where they are probed."""

from ._boxes import AbstractBox as AbstractBox
from ._boxes import AffineBox as AffineBox
from ._boxes import ClosedBox as ClosedBox
from ._boxes import FixedBox as FixedBox
from ._boxes import GridState as GridState
from ._boxes import ScaledBox as ScaledBox
from ._boxes import turning as turning
from ._checks import COARSE as COARSE
from ._checks import FEWEST as FEWEST
from ._checks import MISSING as MISSING
from ._checks import check_density as check_density
from ._checks import check_edges as check_edges
from ._checks import check_mass as check_mass
from ._checks import check_resolved as check_resolved
from ._checks import roughness as roughness
from ._forced import Forced as Forced
from ._forced import forced as forced
from ._probes import AbstractProbe as AbstractProbe
from ._probes import Chart as Chart
from ._probes import EveryFace as EveryFace
from ._probes import Nodes as Nodes
from ._upwind import fluxes as fluxes
