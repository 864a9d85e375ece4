"""Statements of the papers, measured against controls that must fail."""

from ._case import Case as Case
from ._case import Size as Size
from ._check import Ascent as Ascent
from ._check import Check as Check
from ._check import Fit as Fit
from ._identity import Identity as Identity
from ._report import describe_statement as describe_statement
from ._report import read_report as read_report
from ._report import report as report
from ._report import witnesses as witnesses
from ._statement import Counterexample as Counterexample
from ._statement import Statement as Statement
from ._statement import statement as statement
from ._statement import statements as statements
from ._subjects import attention_marks as attention_marks
from ._subjects import statements_by_attention as statements_by_attention
from ._verify import Outcome as Outcome
from ._verify import Trial as Trial
from ._verify import select_statements as select_statements
from ._verify import verify_statement as verify_statement  # isort: split

# Statements are listed in the order of these imports, which follows the papers.

# isort: off
import meanfield.theorems.attention.variants
import meanfield.theorems.attention.linear
import meanfield.theorems.attention.relu
import meanfield.theorems.attention.sinkhorn
import meanfield.theorems.attention.masked
import meanfield.theorems.attention.multihead
import meanfield.theorems.attention.crossing
import meanfield.theorems.solutions.support
import meanfield.theorems.solutions.stability
import meanfield.theorems.solutions.discretisation
import meanfield.theorems.solutions.distances
import meanfield.theorems.solutions.masked_stability
import meanfield.theorems.solutions.picard
import meanfield.theorems.solutions.masked_limits
import meanfield.theorems.solutions.collapse
import meanfield.theorems.estimates.fields
import meanfield.theorems.estimates.sinkhorn
import meanfield.theorems.estimates.sums
import meanfield.theorems.estimates.potentials
import meanfield.theorems.gaussians.softmax
import meanfield.theorems.gaussians.line
import meanfield.theorems.gaussians.commuting
import meanfield.theorems.gaussians.factors
import meanfield.theorems.gaussians.rank_one
import meanfield.theorems.gaussians.limits
import meanfield.theorems.gaussians.heads
import meanfield.theorems.gaussians.drift
import meanfield.theorems.gaussians.l2
import meanfield.theorems.gaussians.l2_growth
import meanfield.theorems.gaussians.sinkhorn
import meanfield.theorems.gaussians.sinkhorn_growth
import meanfield.theorems.covariances.pictures
import meanfield.theorems.covariances.growth
import meanfield.theorems.covariances.published_steps
import meanfield.theorems.energies.first_variations
import meanfield.theorems.energies.optimality
import meanfield.theorems.energies.density_flows
import meanfield.theorems.energies.bures
import meanfield.theorems.energies.bures_gradients
import meanfield.theorems.energies.sinkhorn
import meanfield.theorems.energies.sinkhorn_gaussians
import meanfield.theorems.energies.rank
import meanfield.theorems.energies.twisted_metric
import meanfield.theorems.energies.twisted_gaussians
import meanfield.theorems.energies.geodesics
import meanfield.theorems.energies.geodesic_convexity
import meanfield.theorems.transport.duality
import meanfield.theorems.transport.gaussians
import meanfield.theorems.transport.iterations
import meanfield.theorems.transport.limits
import meanfield.theorems.transport.conditionals
import meanfield.theorems.sinkformers.marginals
import meanfield.theorems.sinkformers.layers
import meanfield.theorems.sinkformers.kernels
import meanfield.theorems.sinkformers.gradients
import meanfield.theorems.sinkformers.gradient_identities
import meanfield.theorems.sinkformers.not_gradients
import meanfield.theorems.sinkformers.few_steps
import meanfield.theorems.sinkformers.derivatives
import meanfield.theorems.bandwidths.heat
import meanfield.theorems.bandwidths.l2
import meanfield.theorems.bandwidths.variances
import meanfield.theorems.sparse.blocks
import meanfield.theorems.sparse.balancing
import meanfield.theorems.sparse.sorting
import meanfield.theorems.sparse.causality
import meanfield.theorems.sparse.counts
import meanfield.theorems.sliced.lines
import meanfield.theorems.sliced.sorting
import meanfield.theorems.sliced.distances
import meanfield.theorems.sliced.weights
import meanfield.theorems.sliced.algorithm
import meanfield.theorems.sliced.counts
import meanfield.theorems.sliced.schedule
import meanfield.theorems.sliced.baselines
import meanfield.theorems.sliced_gaussians.limits
import meanfield.theorems.sliced_gaussians.costs
import meanfield.theorems.sliced_gaussians.growth
import meanfield.theorems.sliced_gaussians.flows
import meanfield.theorems.sliced_gaussians.soft_sort
import meanfield.theorems.spheres.equiangular
import meanfield.theorems.spheres.pairs
import meanfield.theorems.spheres.energies
import meanfield.theorems.spheres.circles
import meanfield.theorems.spheres.norms
import meanfield.theorems.spheres.hardmax
# isort: on

del meanfield  # the imports above are needed only to register the statements
