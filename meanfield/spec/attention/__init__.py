"""Configuration keys for an attention, its context, a drift and energies."""

from ._attention import AttentionSpec as AttentionSpec
from ._attention import DepthSpec as DepthSpec
from ._attention import LayerSpec as LayerSpec
from ._context import Context as Context
from ._context import context_of as context_of
from ._drift import DriftSpec as DriftSpec
from ._energies import EnergySpec as EnergySpec
from ._matrices import Matrices as Matrices
from ._matrices import Matrix as Matrix
from ._matrices import Numbers as Numbers
from ._matrices import heads_of as heads_of
from ._options import files_in as files_in
from ._options import options_of as options_of
from ._options import replace_files as replace_files
