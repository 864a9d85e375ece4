"""Densities on the circle, and on spheres if they depend on one angle only.

The package has everything about these measures: the measures themselves, how flows move
them, and how runs start, store and report them.
"""

from .circle import CircleDensity as CircleDensity
from .density import AbstractSphericalDensity as AbstractSphericalDensity
from .density import SphericalState as SphericalState
from .laws import spherical_law as spherical_law
from .laws import spherical_laws as spherical_laws
from .motion import SphericalMotion as SphericalMotion
from .zonal import ZonalDensity as ZonalDensity
