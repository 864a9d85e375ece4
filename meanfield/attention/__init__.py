"""Attentions by name, such as `softmax`: each a score, a coupling and a value."""

from ._attention import Attention as Attention
from ._attention import attentions as attentions
from ._attention import costs as costs
from ._attention import gaussian_variants as gaussian_variants
from ._attention import symmetries as symmetries
from ._attention import variant as variant
from ._attention import variant_options as variant_options
from ._coupling import AbstractBarycentre as AbstractBarycentre
from ._coupling import AbstractClosedFormCoupling as AbstractClosedFormCoupling
from ._coupling import AbstractCoupling as AbstractCoupling
from ._coupling import AbstractGaussianCoupling as AbstractGaussianCoupling
from ._coupling import AbstractRowwise as AbstractRowwise

from .softmax import Softmax as Softmax  # isort: skip
from .softmax import l2 as l2  # isort: split

from .differential import Differential as Differential
from .hardmax import Hardmax as Hardmax
from .linear import Linear as Linear
from .linear import LinearExpansion as LinearExpansion
from .plan import plans as plans
from .pointwise import Pointwise as Pointwise
from .pointwise import Relu as Relu
from .redrawn import Redraw as Redraw
from .redrawn import Redrawn as Redrawn
from .redrawn import matrix_laws as matrix_laws
from .scalings import Scalings as Scalings
from .scalings import scalings as scalings
from .sinkhorn import Sinkhorn as Sinkhorn
from .sliced import AbstractSoftSlices as AbstractSoftSlices
from .sliced import GaussianSoftSlices as GaussianSoftSlices
from .sliced import HardSlices as HardSlices
from .sliced import PublishedSoftSlices as PublishedSoftSlices
from .sliced import SoftSlices as SoftSlices
from .sparse import CausalSparse as CausalSparse
from .sparse import SortCut as SortCut
from .sparse import Sparse as Sparse
from .sparse import SparseMixture as SparseMixture
