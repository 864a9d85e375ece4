"""Computation on several devices and processes, which share tokens or members."""

from ._layout import Layout as Layout
from ._layout import spread as spread
