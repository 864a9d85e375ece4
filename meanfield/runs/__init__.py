"""Simulations, sweeps and comparisons: functions that run, resume and open them.

Names are imported at first use, so `dataset` and `format_bytes` do not import JAX.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._maps import add_attention as add_attention
    from ._maps import attention_of as attention_of
    from ._opening import check_plugins_unchanged as check_plugins_unchanged
    from ._opening import open as open  # noqa: A004
    from ._opening import plugins_of as plugins_of
    from ._simulate import simulate as simulate
    from ._simulate import spec_of as spec_of
    from ._trajectories import trajectory_dataset as trajectory_dataset
    from .comparisons._comparison import Comparison as Comparison
    from .comparisons._comparison import compare as compare
    from .comparisons._distances import distances as distances
    from .comparisons._gaps import Gap as Gap
    from .comparisons._record import compared_runs as compared_runs
    from .comparisons._record import is_comparison as is_comparison
    from .comparisons._sides import sides as sides
    from .execution._execute import execute as execute
    from .execution._execute import resume as resume
    from .execution._load_start import load_start as load_start
    from .execution._notes import reason as reason
    from .execution._result import Progress as Progress
    from .execution._result import Result as Result
    from .execution._run import Run as Run
    from .execution._run import start as start
    from .forecasts._duration import Duration as Duration
    from .forecasts._duration import describe_duration as describe_duration
    from .forecasts._forecast import Forecast as Forecast
    from .forecasts._forecast import forecast as forecast
    from .forecasts._plan import Plan as Plan
    from .forecasts._plan import check_disk_space as check_disk_space
    from .forecasts._plan import plan as plan
    from .records._dataset import dataset as dataset
    from .records._dataset import subject as subject
    from .records._dataset import title as title
    from .records._endings import Outcome as Outcome
    from .records._energy_change import EnergyChange as EnergyChange
    from .records._provenance import device as device
    from .records._provenance import versions as versions
    from .records._words import add_word_coordinate as add_word_coordinate
    from .representations import AbstractRepresentation as AbstractRepresentation
    from .representations import moments_of as moments_of
    from .setup._energies import assumes_identity as assumes_identity
    from .setup._memory import format_bytes as format_bytes
    from .setup._memory import physical_memory as physical_memory
    from .setup._resolve import member as member
    from .setup._resolve import resolve as resolve
    from .setup._setup import Member as Member
    from .setup._setup import Setup as Setup
    from .sweeps._store import SweepStore as SweepStore
    from .sweeps._store import is_sweep as is_sweep
    from .sweeps._store import sweep_dataset as sweep_dataset
    from .sweeps._sweep import SweepProgress as SweepProgress
    from .sweeps._sweep import SweepResult as SweepResult
    from .sweeps._sweep import begin_sweep as begin_sweep
    from .sweeps._sweep import join_sweep as join_sweep
    from .sweeps._sweep import sweep as sweep

__getattr__, __dir__, __all__ = lazy_exports(__name__)
