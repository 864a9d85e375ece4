"""Solvers for Sinkhorn potentials, and the maps whose fixed points they are."""

from ._potentials import solve_potential as solve_potential
from ._steps import full_step as full_step
from ._steps import half_step as half_step
