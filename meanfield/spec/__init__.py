"""The keys of a run: their types, ranges, defaults and rules."""

from meanfield._renamed import old_names

from ._axes import Axis as Axis
from ._axes import cell_name as cell_name
from ._axes import parse_axes as parse_axes
from ._axes import replace_values as replace_values
from ._files import paths_in as paths_in
from ._files import read_toml as read_toml
from ._files import relative_name as relative_name
from ._files import relative_paths as relative_paths
from ._files import resolve_paths as resolve_paths
from ._grid import GridSpec as GridSpec
from ._keys import HEADINGS as HEADINGS
from ._keys import PARAMETERS as PARAMETERS
from ._keys import Key as Key
from ._measures import MeasureInfo as MeasureInfo
from ._measures import measures as measures
from ._model import HEADWISE_KEYS as HEADWISE_KEYS
from ._model import KEYS as KEYS
from ._model import MATRICES as MATRICES
from ._model import RunSpec as RunSpec
from ._model import has_key as has_key
from ._parsing import merge_values as merge_values
from ._parsing import parse as parse
from ._presets import presets as presets
from ._start import EUCLIDEAN as EUCLIDEAN
from ._start import StartSpec as StartSpec
from ._template import template as template
from ._toml import as_toml as as_toml
from .attention import AttentionSpec as AttentionSpec
from .attention import Context as Context
from .attention import LayerSpec as LayerSpec
from .attention import Matrices as Matrices
from .attention import Matrix as Matrix
from .attention import context_of as context_of
from .attention import heads_of as heads_of
from .attention import options_of as options_of
from .attention import replace_files as replace_files

__getattr__ = old_names(__name__)
