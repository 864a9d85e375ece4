"""Options for computing on several devices or processes."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from meanfield.errors import InvalidInputError

from ._joining import devices_per_process, initialize_runtime, parse_place
from ._supervising import supervise

if TYPE_CHECKING:
    from meanfield.devices import Layout
    from meanfield.storage import RunStore

_GROUP = Group("Devices and processes", sort_key=99)


@dataclass(frozen=True)
class Parallelism:
    """Values of `--devices`, `--processes` and `--join`.

    Attributes:
        devices: number of devices over which tokens, or members of a family, are
            distributed; sums are exact
        processes: number of processes to start on this machine for one run
        join: place of this process in a distributed run: `slurm`, or
            HOST:PORT/NUMBER/COUNT with the address of process 0, such as
            10.0.0.1:9000/1/4

    Raises:
        InvalidInputError: if `processes` and `join` are both given, or `devices` < 1.
    """

    devices: Annotated[int | None, Parameter(group=_GROUP)] = None
    processes: Annotated[int | None, Parameter(group=_GROUP)] = None
    join: Annotated[str | None, Parameter(group=_GROUP)] = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.join is not None:
            raise InvalidInputError(
                "`--processes` starts all processes of a run, and `--join` is for "
                "processes that are started separately: give only one of the two."
            )
        if self.devices is not None and self.devices < 1:
            raise InvalidInputError(
                f"`--devices` must be at least 1; got {self.devices}."
            )

    def complete_from(self, store: "RunStore") -> "Parallelism":
        """The given parallelism; without one, the parallelism of the unfinished run."""
        from meanfield.storage import RESUMABLE

        has_ended = store.ending is not None and store.ending.name != RESUMABLE
        if self != Parallelism() or has_ended:
            return self
        layout = store.attrs.get("layout") or {}
        processes = layout.get("processes", 1)
        return Parallelism(layout.get("devices"), processes if processes > 1 else None)

    def sums(self, reduction: str) -> str:
        """Name of the reduction that computes sums, given the spec's key `reduction`.

        With several devices or processes, `auto` means `blocked`, which is exact.

        Raises:
            InvalidInputError: if `devices` is not a multiple of `processes`.
        """
        devices_per_process(self.devices, self.processes or 1)
        return "blocked" if self != Parallelism() and reduction == "auto" else reduction

    def initialize(self) -> None:
        """Creates the devices of JAX; must be called before JAX is used."""
        if self.processes is not None:
            return  # the child processes create the devices
        place = None if self.join is None else parse_place(self.join)
        initialize_runtime(self.devices, place)

    def supervise(self, run: Path | None) -> None:
        """Runs the command in several processes, and exits with its code if it fails.

        Args:
            run: folder of the stored run, if it is stored.
        """
        assert self.processes is not None
        hint = "nothing is stored."
        if run is not None:
            hint = f"go on with `meanfield resume {run} --processes M`, for any M."
        code = supervise(self.processes, self.devices, hint)
        if code:
            sys.exit(code)

    def layout(self) -> "Layout | None":
        """The layout of all devices; `None` without `--devices` and `--join`."""
        if self.devices is None and self.join is None:
            return None
        import jax

        from meanfield.devices import Layout

        return Layout.from_count(self.devices or jax.device_count())


ParallelismOptions = Annotated[Parallelism, Parameter(name="*")]
SERIAL = Parallelism()
