"""The tasks, a file each."""

from .characters import Characters as Characters
from .parity import Parity as Parity
from .patches import Patches as Patches
from .solids import Solids as Solids
