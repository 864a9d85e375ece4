"""Sparse Sinkhorn attention, in which a network sorts the blocks of keys."""

from ._balancing import balance_logs as balance_logs
from ._balancing import balance_logs_causally as balance_logs_causally
from ._blocks import Blocks as Blocks
from ._blocks import block_sums as block_sums
from ._blocks import prefix_sums as prefix_sums
from ._mixture import CausalSparseMixture as CausalSparseMixture
from ._mixture import SparseMixture as SparseMixture
from ._network import Layer as Layer
from ._network import SortingNetwork as SortingNetwork
from ._sortcut import SortCut as SortCut
from ._sorting import AbstractSorting as AbstractSorting
from ._sorting import CausalLearnedSorting as CausalLearnedSorting
from ._sorting import FixedSorting as FixedSorting
from ._sorting import LearnedSorting as LearnedSorting
from ._sparse import CausalSparse as CausalSparse
from ._sparse import Sparse as Sparse
from ._sparse_variants import sortcut as sortcut
from ._sparse_variants import sparse_sinkhorn as sparse_sinkhorn
from ._sparse_variants import sparse_sinkhorn_causal as sparse_sinkhorn_causal
from ._sparse_variants import (
    sparse_sinkhorn_causal_mixture as sparse_sinkhorn_causal_mixture,
)
from ._sparse_variants import sparse_sinkhorn_mixture as sparse_sinkhorn_mixture
