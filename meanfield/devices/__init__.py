"""Tokens, and members of families, spread over devices and over processes."""

from ._layout import Layout as Layout
from ._layout import spread as spread
