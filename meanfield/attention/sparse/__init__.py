"""Sparse Sinkhorn attention: tokens look at a block that a network sorts to them."""

from ._balancing import balanced as balanced
from ._balancing import balanced_causally as balanced_causally
from ._blocks import Blocks as Blocks
from ._blocks import pooled as pooled
from ._blocks import pooled_before as pooled_before
from ._mixture import SparseMixture as SparseMixture
from ._network import Layer as Layer
from ._network import SortingNetwork as SortingNetwork
from ._sortcut import SortCut as SortCut
from ._sorting import AbstractSorting as AbstractSorting
from ._sorting import CausallyLearned as CausallyLearned
from ._sorting import Learned as Learned
from ._sorting import Reordered as Reordered
from ._sparse import CausalSparse as CausalSparse
from ._sparse import Sparse as Sparse
from ._sparse_variants import sortcut as sortcut
from ._sparse_variants import sparse_sinkhorn as sparse_sinkhorn
from ._sparse_variants import sparse_sinkhorn_causal as sparse_sinkhorn_causal
from ._sparse_variants import sparse_sinkhorn_mixture as sparse_sinkhorn_mixture
