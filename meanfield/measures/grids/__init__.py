"""Parts of a density on a grid: boxes, checks, fluxes and probes of the velocity."""

from ._boxes import AbstractBox as AbstractBox
from ._boxes import AffineBox as AffineBox
from ._boxes import ClosedBox as ClosedBox
from ._boxes import FixedBox as FixedBox
from ._boxes import GridState as GridState
from ._boxes import Ring as Ring
from ._boxes import ScaledBox as ScaledBox
from ._boxes import initial_state as initial_state
from ._boxes import linear_velocity as linear_velocity
from ._checks import MAX_MISSING_MASS as MAX_MISSING_MASS
from ._checks import MAX_ROUGHNESS as MAX_ROUGHNESS
from ._checks import MIN_CELLS as MIN_CELLS
from ._checks import check_density as check_density
from ._checks import check_edges as check_edges
from ._checks import check_mass as check_mass
from ._checks import check_resolved as check_resolved
from ._checks import roughness as roughness
from ._force_fluxes import ForceFluxes as ForceFluxes
from ._force_fluxes import force_fluxes as force_fluxes
from ._probes import AbstractProbe as AbstractProbe
from ._probes import Chart as Chart
from ._probes import EveryFace as EveryFace
from ._probes import Nodes as Nodes
from ._upwind import fluxes as fluxes
