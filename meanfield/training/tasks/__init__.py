"""The tasks, a file each."""

from .patches import Patches as Patches
