"""Every panel, registered: one import line each."""

from . import attention_maps as attention_maps
from . import balance as balance
from . import clusters as clusters
from . import covariance_cone as covariance_cone
from . import density as density
from . import energy as energy
from . import phase as phase
from . import spectrum as spectrum
from . import tokens as tokens
from . import trace_one_disc as trace_one_disc
from ._panels import panels as panels
