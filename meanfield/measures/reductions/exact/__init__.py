"""Sums over all pairs, without interpolation: dense, blocked, or by features."""

from ._features import AbstractFeatureLink as AbstractFeatureLink
from ._features import Power as Power
from ._groups import Groups as Groups
from ._planned import AbstractPlannedReduction as AbstractPlannedReduction
from ._planned import use_exact_sums as use_exact_sums
from ._reduction import AbstractReduction as AbstractReduction
from ._reduction import Blocked as Blocked
from ._reduction import BlockedBatch as BlockedBatch
from ._reduction import Dense as Dense
from ._reduction import Keys as Keys
from ._reduction import Link as Link
from ._reduction import exponential as exponential
from ._ring import AXIS as AXIS
from ._ring import Ring as Ring
from ._separable import Separable as Separable
