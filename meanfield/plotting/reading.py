"""What pages of other packages read of a run, as the pictures read it."""

from ._runs.data import Cloud as Cloud
from ._runs.data import Ending as Ending
from ._runs.data import Swarm as Swarm
from ._runs.data import Track as Track
from ._runs.data import cloud as cloud
from ._runs.data import ending as ending
from ._runs.data import kind as kind
from ._runs.data import runs as runs
from ._runs.data import values as values
from ._runs.density import Density as Density
from ._runs.density import density_run as density_run
from ._runs.density import entropies as entropies
from ._runs.depth import head_numbers as head_numbers
from ._runs.depth import layers_passed as layers_passed
from ._runs.described import described as described
from ._runs.described import spec_of as spec_of
from ._runs.metrics import COSINE_LINK as COSINE_LINK
from ._runs.metrics import EUCLIDEAN as EUCLIDEAN
from ._runs.metrics import metrics as metrics
from ._runs.observables import covariance as covariance
from ._runs.observables import even_frames as even_frames
from ._runs.observables import moments as moments
from ._runs.observables import principal_axes as principal_axes
from ._runs.observables import rounded_spectrum as rounded_spectrum
from ._runs.observables import run_moments as run_moments
