"""Specs become flows, segment by segment. Names are loaded at first use.

So `dataset` and `readable`, which need no JAX, do not wait for it.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._maps import attention_of as attention_of
    from ._maps import with_attention as with_attention
    from ._opening import open as open  # noqa: A004
    from ._opening import plugins_of as plugins_of
    from ._opening import refuse_changed_plugins as refuse_changed_plugins
    from ._simulate import simulate as simulate
    from ._trajectories import trajectory_dataset as trajectory_dataset
    from .comparing._comparison import Comparison as Comparison
    from .comparing._comparison import compare as compare
    from .comparing._gaps import Gap as Gap
    from .comparing._record import is_comparison as is_comparison
    from .comparing._sides import sides as sides
    from .execution._execute import execute as execute
    from .execution._execute import resume as resume
    from .execution._first import stored_start as stored_start
    from .execution._notes import reason as reason
    from .execution._result import Progress as Progress
    from .execution._result import Result as Result
    from .execution._run import Run as Run
    from .execution._run import start as start
    from .forecasts._duration import Duration as Duration
    from .forecasts._duration import in_words as in_words
    from .forecasts._foresight import Foresight as Foresight
    from .forecasts._foresight import foreseen as foreseen
    from .forecasts._plan import Plan as Plan
    from .forecasts._plan import plan as plan
    from .forecasts._plan import refuse_full_disk as refuse_full_disk
    from .records._dataset import dataset as dataset
    from .records._dataset import subject as subject
    from .records._dataset import title as title
    from .records._endings import Outcome as Outcome
    from .records._fall import Fall as Fall
    from .records._provenance import device as device
    from .records._provenance import versions as versions
    from .records._words import with_words as with_words
    from .representations import AbstractRepresentation as AbstractRepresentation
    from .representations import moments_of as moments_of
    from .setup._energies import assumes_identity as assumes_identity
    from .setup._memory import physical_memory as physical_memory
    from .setup._memory import readable as readable
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

__getattr__, __dir__, __all__ = lazy(__name__)
