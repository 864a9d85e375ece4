"""Specs become flows, segment by segment. Names are loaded at first use.

So `dataset` and `readable`, which need no JAX, do not wait for it.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._maps import attention_of, with_attention
    from ._simulate import simulate
    from ._trajectories import trajectory_dataset
    from .building._build import Member, member
    from .building._energies import assumes_identity
    from .comparing._comparison import Comparison, compare
    from .comparing._gaps import Gap
    from .comparing._record import is_comparison
    from .comparing._sides import sides
    from .execution._causes import reason
    from .execution._execute import execute, resume
    from .execution._first import stored_start
    from .execution._result import Progress, Result
    from .execution._run import Run, start
    from .forecasts._duration import Duration, in_words
    from .forecasts._foresight import Foresight, foreseen
    from .forecasts._plan import Plan, physical_memory, plan, readable, refuse_full_disk
    from .records._dataset import dataset, subject, title
    from .records._endings import Outcome
    from .records._fall import Fall
    from .records._opening import open as open  # noqa: A004
    from .records._plugins import plugins_of, refuse_changed_plugins
    from .records._provenance import device, versions
    from .records._words import with_words
    from .representations import AbstractRepresentation, moments_of
    from .sweeps._store import SweepStore, is_sweep, sweep_dataset
    from .sweeps._sweep import (
        SweepProgress,
        SweepResult,
        begin_sweep,
        join_sweep,
        sweep,
    )

__all__ = [
    "AbstractRepresentation",
    "Comparison",
    "Duration",
    "Fall",
    "Foresight",
    "Gap",
    "Member",
    "Outcome",
    "Plan",
    "Progress",
    "Result",
    "Run",
    "SweepProgress",
    "SweepResult",
    "SweepStore",
    "assumes_identity",
    "attention_of",
    "begin_sweep",
    "compare",
    "dataset",
    "device",
    "execute",
    "foreseen",
    "in_words",
    "is_comparison",
    "is_sweep",
    "join_sweep",
    "member",
    "moments_of",
    "physical_memory",
    "plan",
    "plugins_of",
    "readable",
    "reason",
    "refuse_changed_plugins",
    "refuse_full_disk",
    "resume",
    "sides",
    "simulate",
    "start",
    "stored_start",
    "subject",
    "sweep",
    "sweep_dataset",
    "title",
    "trajectory_dataset",
    "versions",
    "with_attention",
    "with_words",
]

_HOMES = {
    "AbstractRepresentation": ".representations",
    "Comparison": ".comparing._comparison",
    "Duration": ".forecasts._duration",
    "Fall": ".records._fall",
    "Foresight": ".forecasts._foresight",
    "Gap": ".comparing._gaps",
    "Member": ".building._build",
    "Outcome": ".records._endings",
    "Plan": ".forecasts._plan",
    "Progress": ".execution._result",
    "Result": ".execution._result",
    "Run": ".execution._run",
    "SweepProgress": ".sweeps._sweep",
    "SweepResult": ".sweeps._sweep",
    "SweepStore": ".sweeps._store",
    "begin_sweep": ".sweeps._sweep",
    "compare": ".comparing._comparison",
    "dataset": ".records._dataset",
    "device": ".records._provenance",
    "execute": ".execution._execute",
    "foreseen": ".forecasts._foresight",
    "assumes_identity": ".building._energies",
    "in_words": ".forecasts._duration",
    "is_comparison": ".comparing._record",
    "is_sweep": ".sweeps._store",
    "join_sweep": ".sweeps._sweep",
    "moments_of": ".representations",
    "member": ".building._build",
    "open": ".records._opening",
    "physical_memory": ".forecasts._plan",
    "plan": ".forecasts._plan",
    "plugins_of": ".records._plugins",
    "refuse_changed_plugins": ".records._plugins",
    "readable": ".forecasts._plan",
    "reason": ".execution._causes",
    "refuse_full_disk": ".forecasts._plan",
    "resume": ".execution._execute",
    "sides": ".comparing._sides",
    "simulate": "._simulate",
    "start": ".execution._run",
    "stored_start": ".execution._first",
    "subject": ".records._dataset",
    "sweep": ".sweeps._sweep",
    "sweep_dataset": ".sweeps._store",
    "title": ".records._dataset",
    "trajectory_dataset": "._trajectories",
    "versions": ".records._provenance",
    "attention_of": "._maps",
    "with_attention": "._maps",
    "with_words": ".records._words",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
