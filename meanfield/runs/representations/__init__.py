# Lists of measures have the order of these imports, with tokens first.

from ._points import SKETCH_SIZE as SKETCH_SIZE  # isort: skip
from ._points import TokenRuns as TokenRuns  # isort: skip
from ._points import token_numbers as token_numbers  # isort: skip
from ._gaussian import GaussianRuns as GaussianRuns  # isort: skip
from ._grid import GridRuns as GridRuns  # isort: skip
from ._cells import Discretization as Discretization
from ._representation import AbstractRepresentation as AbstractRepresentation
from ._representation import Arrays as Arrays
from ._representation import Frame as Frame
from ._representation import constant_frames as constant_frames
from ._representation import dimension_in as dimension_in
from ._representation import frame_of as frame_of
from ._representation import has_error_bound as has_error_bound
from ._representation import largest_eigenvalue as largest_eigenvalue
from ._representation import moments_of as moments_of
from ._representation import representation_in as representation_in
from ._representation import representation_of as representation_of
from ._representation import representations as representations
from ._representation import sums_of as sums_of
from ._start import Start as Start
from ._start import Steps as Steps
from ._sums import Size as Size
from ._sums import Sums as Sums
from ._sums import only_sorts as only_sorts
from ._sums import reduction_name as reduction_name

for _name in ("circle", "zonal"):
    representations.register_module(_name, "meanfield.spherical.runs")
