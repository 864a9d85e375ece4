from meanfield._renamed import old_names

from ._isotropic import Isotropic as Isotropic
from ._isotropic import Noise as Noise
from ._isotropic import active_noise as active_noise
from ._isotropic import cast_noise as cast_noise
from ._motion import Motion as Motion
from ._motion import motion_of as motion_of
from ._motion import motions as motions
from .gaussian import GaussianMotion as GaussianMotion
from .grid import GridMotion as GridMotion
from .points import TokenMotion as TokenMotion
from .points import has_bound as has_bound
from .points import interpolations as interpolations
from .points import plan_sums as plan_sums
from .spherical import SphericalMotion as SphericalMotion

__getattr__ = old_names(__name__)
