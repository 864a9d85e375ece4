"""Measures: weighted tokens, Gaussians, and densities on a grid."""

from meanfield._renamed import old_names

from ._batched import as_batched as as_batched
from ._batched import max_batch_size as max_batch_size
from ._cards import history as history
from ._gaussian import Gaussian as Gaussian
from ._grid import MAX_TURN as MAX_TURN
from ._grid import Grid as Grid
from ._measure import AbstractMeasure as AbstractMeasure
from ._measure import Facing as Facing
from ._measure import check_unstacked as check_unstacked
from ._measure import memberwise as memberwise
from ._points import Points as Points
from ._quadrature import AbstractRule as AbstractRule
from ._quadrature import Quadrature as Quadrature
from ._quadrature import RotatedSigmaPoints as RotatedSigmaPoints
from ._quadrature import Tensor as Tensor
from ._quadrature import rule_for as rule_for
from ._reader import AbstractReader as AbstractReader
from ._reader import unsupported_measure as unsupported_measure
from ._requirements import SequenceCheck as SequenceCheck
from ._requirements import check_no_shear as check_no_shear
from ._subsample import subsample as subsample
from .grids import MAX_MISSING_MASS as MAX_MISSING_MASS
from .grids import MAX_ROUGHNESS as MAX_ROUGHNESS
from .grids import MIN_CELLS as MIN_CELLS
from .grids import AbstractBox as AbstractBox
from .grids import AbstractProbe as AbstractProbe
from .grids import AffineBox as AffineBox
from .grids import ClosedBox as ClosedBox
from .grids import EveryFace as EveryFace
from .grids import FixedBox as FixedBox
from .grids import GridState as GridState
from .grids import Nodes as Nodes
from .grids import ScaledBox as ScaledBox
from .grids import check_edges as check_edges
from .grids import roughness as roughness
from .reductions import MAX_BLOCK_NUMBERS as MAX_BLOCK_NUMBERS
from .reductions import AbstractFeatureLink as AbstractFeatureLink
from .reductions import AbstractPlannedReduction as AbstractPlannedReduction
from .reductions import AbstractReduction as AbstractReduction
from .reductions import Blocked as Blocked
from .reductions import Cells as Cells
from .reductions import Chebyshev as Chebyshev
from .reductions import CheckedCells as CheckedCells
from .reductions import Dense as Dense
from .reductions import GaussLayout as GaussLayout
from .reductions import InterpolationDetector as InterpolationDetector
from .reductions import InterpolationSignal as InterpolationSignal
from .reductions import Keys as Keys
from .reductions import Layout as Layout
from .reductions import Link as Link
from .reductions import Power as Power
from .reductions import Survey as Survey
from .reductions import UncheckedCells as UncheckedCells
from .reductions import coarsen as coarsen
from .reductions import exponential as exponential
from .reductions import typical_layout as typical_layout
from .reductions import use_exact_sums as use_exact_sums
from .reductions import use_fallback as use_fallback
from .reductions import use_unchecked_cells as use_unchecked_cells
from .reductions import worst_tokens as worst_tokens

__getattr__ = old_names(__name__)
