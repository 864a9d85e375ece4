from ._token_motion import TokenMotion as TokenMotion
from .planning import has_bound as has_bound
from .planning import interpolations as interpolations
from .planning import plan_sums as plan_sums
