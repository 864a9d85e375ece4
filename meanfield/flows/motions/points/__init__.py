from ._motion import TokenMotion as TokenMotion
from ._planning import DIMENSIONS as DIMENSIONS
from ._planning import interpolates as interpolates
from ._planning import planned as planned
