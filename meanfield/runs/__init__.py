"""Specs become flows, segment by segment. Names are loaded at first use.

So `dataset` and `readable`, which need no JAX, do not wait for it.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._build import Member, member
    from ._causes import reason
    from ._compare import sides
    from ._comparison import Comparison, compare
    from ._dataset import dataset, subject, title
    from ._duration import Duration, in_words
    from ._endings import Outcome
    from ._execute import Progress, Result, execute, resume
    from ._foresight import Foresight, foreseen
    from ._gaps import Gap
    from ._maps import with_attention
    from ._opening import open  # noqa: A004
    from ._plan import Plan, physical_memory, plan, readable, refuse_full_disk
    from ._plugins import plugins_of
    from ._provenance import device, versions
    from ._run import Run, start
    from ._sweep import SweepProgress, SweepResult, begin_sweep, join_sweep, sweep
    from ._sweep_store import SweepStore, is_sweep, sweep_dataset
    from .representations import AbstractRepresentation, moments_of

__all__ = [
    "AbstractRepresentation",
    "Comparison",
    "Duration",
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
    "begin_sweep",
    "compare",
    "dataset",
    "device",
    "execute",
    "foreseen",
    "in_words",
    "is_sweep",
    "join_sweep",
    "member",
    "moments_of",
    "open",
    "physical_memory",
    "plan",
    "plugins_of",
    "readable",
    "reason",
    "refuse_full_disk",
    "resume",
    "sides",
    "start",
    "subject",
    "sweep",
    "sweep_dataset",
    "title",
    "versions",
    "with_attention",
]

_HOMES = {
    "AbstractRepresentation": ".representations",
    "Comparison": "._comparison",
    "Duration": "._duration",
    "Foresight": "._foresight",
    "Gap": "._gaps",
    "Member": "._build",
    "Outcome": "._endings",
    "Plan": "._plan",
    "Progress": "._execute",
    "Result": "._execute",
    "Run": "._run",
    "SweepProgress": "._sweep",
    "SweepResult": "._sweep",
    "SweepStore": "._sweep_store",
    "begin_sweep": "._sweep",
    "compare": "._comparison",
    "dataset": "._dataset",
    "device": "._provenance",
    "execute": "._execute",
    "foreseen": "._foresight",
    "in_words": "._duration",
    "is_sweep": "._sweep_store",
    "join_sweep": "._sweep",
    "moments_of": ".representations",
    "member": "._build",
    "open": "._opening",
    "physical_memory": "._plan",
    "plan": "._plan",
    "plugins_of": "._plugins",
    "readable": "._plan",
    "reason": "._causes",
    "refuse_full_disk": "._plan",
    "resume": "._execute",
    "sides": "._compare",
    "start": "._run",
    "subject": "._dataset",
    "sweep": "._sweep",
    "sweep_dataset": "._sweep_store",
    "title": "._dataset",
    "versions": "._provenance",
    "with_attention": "._maps",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
