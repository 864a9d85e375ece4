"""The tasks, a file each."""

from .parity import Parity as Parity
from .patches import Patches as Patches
from .solids import Solids as Solids
