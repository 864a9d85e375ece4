"""Solver for Sinkhorn potentials, and the steps of the alternation."""

from ._potentials import solve_potential as solve_potential
from ._steps import full_step as full_step
from ._steps import half_step as half_step
from ._steps import store_scores as store_scores
