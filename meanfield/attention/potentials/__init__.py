"""Sinkhorn potentials: the maps whose fixed points they are, and ways to solve."""

from ._potentials import converged_potential as converged_potential
from ._steps import full_step as full_step
from ._steps import half_step as half_step
