r"""Scores $s(x, y)$ of a query $x$ and a key $y$, from which couplings compute weights.

A score is already divided by `epsilon`, so couplings never rescale it. In every
coupling, a score of $-\infty$ excludes the pair.
"""

from ._masked import Alibi as Alibi
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
from ._transposed import TransposedScore as TransposedScore
from ._transposed import transpose as transpose
