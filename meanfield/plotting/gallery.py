"""The registry of panels; each module imported here registers its panels."""

from . import clusters as clusters
from . import energy as energy
from . import numbers as numbers
from . import spectrum as spectrum
from ._figure.joint import joint_panels as joint_panels
from ._figure.panels import attention_panels as attention_panels
from ._figure.panels import panels as panels
from .attention import maps as maps
from .cone import cone as cone
from .cone import disc as disc
from .cone import simplex as simplex
from .density import balance as balance
from .density import density as density
from .sweeps import lines as lines
from .sweeps import phase as phase
from .tokens import inner_products as inner_products
from .tokens import leaders as leaders
from .tokens import tokens as tokens
