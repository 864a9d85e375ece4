"""Built-in tasks, one module each."""

from ._edits import edit_distance as edit_distance
from .characters import Characters as Characters
from .parity import Parity as Parity
from .patches import Patches as Patches
from .solids import Solids as Solids
from .sorting import Sorting as Sorting
