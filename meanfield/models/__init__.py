"""Trained networks as dynamics: checkpoints as layers of heads, texts as tokens.

Parts that need JAX or xarray are imported on first use, so listing models is fast.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

from ._architecture import AbstractArchitecture as AbstractArchitecture
from ._architecture import Sizes as Sizes
from ._architecture import architectures as architectures
from ._architecture import hidden_states as hidden_states
from ._architecture import read as read
from ._summary import Summary as Summary
from ._summary import inspect as inspect
from ._tokenizer import LONGEST_TEXT as LONGEST_TEXT
from ._tokenizer import Encoding as Encoding
from ._tokenizer import resolve_text as resolve_text
from .bert import Bert as Bert
from .blocks import HeadSpectra as HeadSpectra
from .blocks import HeadWeights as HeadWeights
from .blocks import Parts as Parts
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import load as load
from .sources import ModelEntry as ModelEntry
from .sources import Source as Source
from .sources import list_models as list_models
from .sources import locate as locate
from .sources import sources as sources
from .trained_network import TrainedNetwork as TrainedNetwork

if TYPE_CHECKING:
    from ._assembly import Text as Text
    from ._assembly import embed as embed
    from ._assembly import layers as layers
    from ._comparison import Comparison as Comparison
    from ._comparison import Depth as Depth
    from ._comparison import Shares as Shares
    from ._comparison import compare as compare
    from ._eigenvalues import head_eigenvalues as head_eigenvalues

__getattr__, __dir__, _ = lazy_exports(__name__)
