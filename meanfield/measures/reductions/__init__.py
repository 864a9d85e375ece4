"""How sums over tokens are executed: dense, in blocks, in cells, between nodes."""

from ._chebyshev import Chebyshev as Chebyshev
from ._chebyshev import Interpolated as Interpolated
from ._chebyshev import Revealing as Revealing
from ._chebyshev import coarsely as coarsely
from ._nodes import LARGEST as LARGEST
from ._planned import AbstractPlanned as AbstractPlanned
from ._planned import exactly as exactly
from ._reduction import AbstractReduction as AbstractReduction
from ._reduction import Beside as Beside
from ._reduction import Blocked as Blocked
from ._reduction import Dense as Dense
from ._reduction import Keys as Keys
from ._reduction import Link as Link
from ._reduction import exponential as exponential
from ._separable import Separable as Separable
from ._suspects import suspects as suspects
from .cells import Cells as Cells
from .cells import Fenced as Fenced
from .cells import GaussLayout as GaussLayout
from .cells import Layout as Layout
from .cells import Survey as Survey
from .cells import Unchecked as Unchecked
from .cells import typical as typical
from .cells import unchecked as unchecked
from .cells import unfenced as unfenced
