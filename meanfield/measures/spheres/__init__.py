"""Densities on the circle, and on spheres if they depend on one angle only."""

from ._spherical import AbstractSphericalDensity as AbstractSphericalDensity
from ._spherical import SphericalState as SphericalState
from .circle import CircleDensity as CircleDensity
from .zonal import ZonalDensity as ZonalDensity
