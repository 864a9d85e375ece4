r"""Scores $s(x, y)$: how much a query $x$ looks at a key $y$, before any coupling.

A score states its scale once: it is already divided by `epsilon`, and couplings never
rescale. A score of $-\infty$ means *excluded*, for every coupling.
"""

from ._masked import Masked as Masked
from ._masked import causal as causal
from ._masked import positions as positions
from ._patterns import BlockCausal as BlockCausal
from ._patterns import BlockLocal as BlockLocal
from ._patterns import Fixed as Fixed
from ._patterns import Strided as Strided
from ._score import AbstractQuadraticScore as AbstractQuadraticScore
from ._score import AbstractScore as AbstractScore
from ._score import Dot as Dot
from ._score import Factors as Factors
from ._squared_distance import SquaredDistance as SquaredDistance
from ._transposed import Transposed as Transposed
from ._transposed import transposed as transposed
