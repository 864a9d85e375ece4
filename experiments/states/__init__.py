"""Stationary densities of noisy attention on spheres, continued through folds.

`python -m experiments.states --help` lists the options.
"""

from .branch import Branch as Branch
from .branch import follow_branch as follow_branch
from .equation import StateEquation as StateEquation
from .equation import check_attention as check_attention
from .equation import state_kinds as state_kinds
from .kernel import ZonalKernel as ZonalKernel
from .kernel import funk_hecke as funk_hecke
