"""Sinkhorn potentials: the maps of which they are fixed points, and solvers."""

from ._potentials import solve_potential as solve_potential
from ._steps import full_step as full_step
from ._steps import half_step as half_step
