"""The options by which a command computes on several devices or processes."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from meanfield.errors import InvalidInputError

from ._joining import each, place, settle
from ._supervising import supervise

if TYPE_CHECKING:
    from meanfield.devices import Layout
    from meanfield.storage import RunStore

_GROUP = Group("Devices and processes", sort_key=99)
_DEVICES = "how many share the tokens, or the members of a family; sums are exact"
_PROCESSES = "start so many on this machine, which compute together"
_JOIN = "this is one process of several: `slurm`, or HOST:PORT/NUMBER/COUNT"


@dataclass(frozen=True)
class Together:
    """What `--devices`, `--processes` and `--join` say.

    Attributes:
        devices: of all processes together.
        processes: to be started on this machine.
        join: which process of several this is.

    Raises:
        InvalidInputError: if a process is to join others and to start some.
    """

    devices: Annotated[int | None, Parameter(group=_GROUP, help=_DEVICES)] = None
    processes: Annotated[int | None, Parameter(group=_GROUP, help=_PROCESSES)] = None
    join: Annotated[str | None, Parameter(group=_GROUP, help=_JOIN)] = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.join is not None:
            raise InvalidInputError(
                "`--processes` starts all that compute together, and `--join` is for "
                "those that something else starts; give one of them."
            )
        if self.devices is not None and self.devices < 1:
            raise InvalidInputError(
                f"`--devices` must be at least 1; got {self.devices}."
            )

    def or_as(self, store: "RunStore") -> "Together":
        """As a run was begun, if nothing is said."""
        from meanfield.storage import RESUMABLE

        has_ended = store.ending is not None and store.ending.name != RESUMABLE
        if self != Together() or has_ended:
            return self
        before = store.attrs.get("layout") or {}
        processes = before.get("processes", 1)
        return Together(before.get("devices"), processes if processes > 1 else None)

    def sums(self, reduction: str) -> str:
        """How sums are executed where `reduction` is asked for: several do exact ones.

        Raises:
            InvalidInputError: if devices do not divide among processes.
        """
        each(self.devices, self.processes or 1)
        return "blocked" if self != Together() and reduction == "auto" else reduction

    def settle(self) -> None:
        """Has JAX make its devices, before it is asked for the first time."""
        if self.processes is not None:
            return  # they make their own
        settle(self.devices, None if self.join is None else place(self.join))

    def supervise(self, run: Path | None) -> None:
        """Has the command done by several processes, and ends with its exit code.

        Args:
            run: the folder in which it is stored, if it is.
        """
        assert self.processes is not None
        hint = (
            "nothing is stored."
            if run is None
            else f"go on with `meanfield resume {run} --processes M`, on any number M."
        )
        code = supervise(self.processes, self.devices, hint)
        if code:
            sys.exit(code)

    def layout(self) -> "Layout | None":
        """The devices of all processes; `None` if nothing was said of them."""
        if self.devices is None and self.join is None:
            return None
        import jax

        from meanfield.devices import Layout

        return Layout.over(self.devices or jax.device_count())


Shared = Annotated[Together, Parameter(name="*")]
ALONE = Together()
