from meanfield.scores import causal as causal

from ._dynamics import AbstractDynamics as AbstractDynamics
from .clock import LogTime as LogTime
from .combine import Heads as Heads
from .combine import Sum as Sum
from .combine import stacked as stacked
from .depth import Interpolated as Interpolated
from .depth import Layers as Layers
from .drift import Drift as Drift
from .prefix import Prefix as Prefix
from .prefix import Window as Window
from .prefix import masks as masks
from .projected import Projected as Projected
from .projected import ProjectedField as ProjectedField
