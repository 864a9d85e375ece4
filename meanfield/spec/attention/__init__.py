"""Configuration keys for an attention, its context, a drift and energies."""

from ._attention import AttentionSpec as AttentionSpec
from ._attention import DriftSpec as DriftSpec
from ._attention import LayerSpec as LayerSpec
from ._attention import Matrices as Matrices
from ._attention import Matrix as Matrix
from ._attention import Numbers as Numbers
from ._attention import heads_of as heads_of
from ._context import Context as Context
from ._context import context_of as context_of
from ._energies import EnergySpec as EnergySpec
from ._options import files_in as files_in
from ._options import options_of as options_of
from ._options import replace_files as replace_files
