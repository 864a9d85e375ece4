"""Specs become flows, segment by segment. Names are loaded at first use.

So `dataset` and `readable`, which need no JAX, do not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._build import Member, member
    from ._dataset import dataset, title
    from ._endings import Outcome
    from ._execute import Progress, Result, execute, resume
    from ._maps import with_attention
    from ._measures import moments_of
    from ._plan import Plan, physical_memory, plan, readable, refuse_full_disk
    from ._provenance import device, versions
    from ._run import Run, start

__all__ = [
    "Member",
    "Outcome",
    "Plan",
    "Progress",
    "Result",
    "Run",
    "dataset",
    "device",
    "execute",
    "member",
    "moments_of",
    "physical_memory",
    "plan",
    "readable",
    "refuse_full_disk",
    "resume",
    "start",
    "title",
    "versions",
    "with_attention",
]

_HOMES = {
    "Member": "._build",
    "Outcome": "._endings",
    "Plan": "._plan",
    "Progress": "._execute",
    "Result": "._execute",
    "Run": "._run",
    "dataset": "._dataset",
    "device": "._provenance",
    "execute": "._execute",
    "moments_of": "._measures",
    "member": "._build",
    "physical_memory": "._plan",
    "plan": "._plan",
    "readable": "._plan",
    "refuse_full_disk": "._plan",
    "resume": "._execute",
    "start": "._run",
    "title": "._dataset",
    "versions": "._provenance",
    "with_attention": "._maps",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
