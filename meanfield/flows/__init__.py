"""Flows of measures, their endings, and ensembles."""

from meanfield._programs import signature as signature
from meanfield.endings import Status as Status
from meanfield.endings import status_counts as status_counts

from . import _card as _card  # registers the card that displays a trajectory
from ._compilation import compile_function as compile_function
from ._compilation import compiler_options as compiler_options
from ._ensemble import ensemble as ensemble
from ._flow import flow as flow
from ._flow import flow_problem as flow_problem
from ._flow import prepare_problem as prepare_problem
from ._integration import Problem as Problem
from ._log_velocities import LogVelocities as LogVelocities
from ._log_velocities import log_velocities as log_velocities
from ._trajectory import Trajectory as Trajectory
from .error_estimates import ErrorEstimate as ErrorEstimate
from .error_estimates import error_estimate as error_estimate
from .motions import Isotropic as Isotropic
from .motions import Motion as Motion
from .motions import has_bound as has_bound
from .motions import interpolations as interpolations
from .motions import motion_of as motion_of
from .motions import plan_sums as plan_sums
from .stepping import SAFETY as SAFETY
from .stepping import AbstractStepping as AbstractStepping
from .stepping import adaptive as adaptive
from .stepping import arclength as arclength
from .stepping import cfl as cfl
from .stepping import events as events
from .stepping import fixed as fixed
from .stepping import solvers as solvers
from .stepping import steps_over_jumps as steps_over_jumps
from .watch import AbstractStop as AbstractStop
from .watch import BlowUp as BlowUp
from .watch import BlowUpTime as BlowUpTime
from .watch import Clustered as Clustered
from .watch import Observation as Observation
from .watch import Steady as Steady
from .watch import stops as stops
