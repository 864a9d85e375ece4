"""Wasserstein distances of measures: exact, sliced and conditional."""

from ._atoms import Atoms as Atoms
from ._atoms import quantise as quantise
from ._conditional import conditional_wasserstein as conditional_wasserstein
from ._distance import Distance as Distance
from ._distance import best_distance as best_distance
from ._distance import moment_bound as moment_bound
from ._distance import sliced_wasserstein as sliced_wasserstein
from ._distance import wasserstein as wasserstein
from ._quantiles import Quantiles as Quantiles
from ._quantiles import line_marginals as line_marginals
from ._spherical import spherical_wasserstein as spherical_wasserstein
