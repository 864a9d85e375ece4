"""Trained networks as dynamics: a checkpoint becomes layers of heads, a text tokens.

What needs JAX is loaded when first asked for, so that listing models does not wait.
"""

import importlib
from typing import TYPE_CHECKING

from ._architecture import AbstractArchitecture as AbstractArchitecture
from ._architecture import HeadWeights as HeadWeights
from ._architecture import Sizes as Sizes
from ._architecture import architectures as architectures
from ._architecture import read as read
from ._summary import Summary as Summary
from ._summary import inspect as inspect
from ._tokenizer import LONGEST_TEXT as LONGEST_TEXT
from ._tokenizer import Encoding as Encoding
from .bert import Bert as Bert
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import load as load
from .sources import Listed as Listed
from .sources import Source as Source
from .sources import listed as listed
from .sources import locate as locate
from .sources import sources as sources

if TYPE_CHECKING:
    from ._assembly import Text as Text
    from ._assembly import embed as embed
    from ._assembly import layers as layers

_NEEDS_JAX = ("Text", "embed", "layers")


def __getattr__(name: str) -> object:
    if name in _NEEDS_JAX:
        return getattr(importlib.import_module("._assembly", __name__), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
