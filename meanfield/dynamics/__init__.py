"""What moves a measure: sums, heads, layers and masks of attentions, and drifts."""

from meanfield.scores import causal as causal

from ._dynamics import AbstractDynamics as AbstractDynamics
from ._dynamics import Discontinuous as Discontinuous
from ._masks import Window as Window
from ._masks import decays as decays
from ._masks import mask_of as mask_of
from ._masks import masks as masks
from ._masks import patterns as patterns
from .clock import LogTime as LogTime
from .combine import Heads as Heads
from .combine import Sum as Sum
from .combine import stack_trees as stack_trees
from .context import AbstractContext as AbstractContext
from .context import MovingContext as MovingContext
from .context import StaticContext as StaticContext
from .cross import Cross as Cross
from .depth import Interpolated as Interpolated
from .depth import Layers as Layers
from .drift import Drift as Drift
from .normalised import AbstractNormalisation as AbstractNormalisation
from .normalised import Normalised as Normalised
from .normalised import check_directions as check_directions
from .normalised import normalisation_of as normalisation_of
from .normalised import normalisations as normalisations
from .perceptron import Perceptron as Perceptron
from .prefix import Prefix as Prefix
from .projected import Projected as Projected
from .projected import ProjectedField as ProjectedField
