"""Processes that compute one flow together: how each of them finds the others."""

import functools
import importlib
import os
import sys
import threading
from typing import NamedTuple

from meanfield.errors import InvalidInputError, ResourceError

SUPERVISED = "MEANFIELD_SUPERVISED"  # a pipe whose other end the parent holds
HEARTBEAT = 10  # seconds without a sign of life, after which a process is lost
PATIENCE = 120  # seconds to wait for all others at the start
FAREWELL = 1800  # seconds to wait for what others still do by themselves at the end
LOOPBACK = "127.0.0.1"
MOST_JOINED = 1 << 16  # processes; the runtime counts in 32 bits
MOST_DEVICES = 1024  # of a process: a processor's are threads, and take seconds to make
_PORTS = range(1, 1 << 16)


class Place(NamedTuple):
    """A process among those that compute together.

    Attributes:
        address: host and port of the first of them; `None` if Slurm knows.
        number: which of them, from 0.
        processes: how many there are.
    """

    address: str | None = None
    number: int = 0
    processes: int = 0


def place(text: str) -> Place:
    """What `--join` says: `slurm`, or `HOST:PORT/NUMBER/COUNT`.

    Raises:
        InvalidInputError: if it says neither.
    """
    if text == "slurm":
        return Place()
    try:
        address, number, count = text.split("/")
        host, port = address.rsplit(":", 1)
        known = Place(address, int(number), int(count))
        fits = bool(host) and int(port) in _PORTS
        fits &= 0 <= known.number < known.processes <= MOST_JOINED
    except ValueError:
        fits, known = False, Place()
    if not fits:
        raise InvalidInputError(
            "`--join` is `slurm`, or HOST:PORT/NUMBER/COUNT with the address of the "
            "first process, which of them this one is, from 0, and how many there are, "
            f"at most {MOST_JOINED}; got `{text}`."
        )
    return known


def settle(devices: int | None, where: Place | None) -> None:
    """Has JAX make its devices, and find the processes beside this one.

    Args:
        devices: of all processes together; one for each process if `None`.
        where: this process among others, if there are any.

    Raises:
        InvalidInputError: if devices do not divide among processes.
        ResourceError: if the others do not come.
    """
    if devices is None and where is None:
        return
    jax = importlib.import_module("jax")
    if where is None:
        jax.config.update("jax_num_cpu_devices", each(devices, 1))
        return
    _quiet_runtime()
    count = where.processes or _tasks()
    own = each(devices, count)
    jax.config.update("jax_num_cpu_devices", own)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # SIGTERM is ours
    try:
        jax.distributed.initialize(
            **_settings(where, own),
            initialization_timeout=PATIENCE,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=FAREWELL,
        )
    except (RuntimeError, ValueError) as error:
        said = str(error).strip().splitlines()
        raise ResourceError(
            f"Not all {count} processes found each other: {said[0] if said else error}"
        ) from error


def each(devices: int | None, processes: int) -> int:
    """The devices of each process.

    Raises:
        InvalidInputError: if they do not divide, or are too many.
    """
    if devices is None:
        return 1
    if devices % processes or not 1 <= devices // processes <= MOST_DEVICES:
        most = MOST_DEVICES * processes
        raise InvalidInputError(
            f"`--devices` counts those of all {processes} processes together, and must "
            f"be a multiple of {processes}, at most {most}; got {devices}."
            if processes > 1
            else f"`--devices` is from 1 to {most}; got {devices}."
        )
    return devices // processes


def _tasks() -> int:
    """How many processes Slurm has started.

    Raises:
        InvalidInputError: if it has not started this one.
    """
    count = os.environ.get("SLURM_NTASKS", "")
    if not count.isdecimal():
        raise InvalidInputError(
            "`--join slurm` is for what `srun` starts: SLURM_NTASKS is not set."
        )
    return int(count)


def _settings(where: Place, devices: int) -> dict[str, object]:
    """What the runtime is told of all processes, and of the devices of this one."""
    if where.address is None:
        return {"cluster_detection_method": "slurm"}
    known: dict[str, object] = {
        "coordinator_address": where.address,
        "num_processes": where.processes,
        "process_id": where.number,
    }
    pipe = os.environ.get(SUPERVISED)
    if pipe is None:
        return known
    threading.Thread(target=_end_with, args=[int(pipe)], daemon=True).start()
    listen_on_loopback()
    first = where.number * devices  # all processes share the devices of this machine
    return {
        **known,
        "coordinator_bind_address": where.address,
        "local_device_ids": list(range(first, first + devices)),
    }


def listen_on_loopback() -> None:
    """Has sums between the processes of one machine listen on loopback alone.

    Whoever reaches a port of the runtime is believed, and JAX has no option for these:
    Gloo would take the address of the host's name, and NCCL any interface.
    """
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    runtime = vars(importlib.import_module("jaxlib._jax"))
    gloo = runtime["make_gloo_tcp_collectives"]
    runtime["make_gloo_tcp_collectives"] = functools.partial(gloo, hostname=LOOPBACK)


def _quiet_runtime() -> None:
    """Leaves the output to Python: the runtime greets each connection there."""
    sys.stdout.flush()
    ours, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdout = os.fdopen(ours, "w", encoding=encoding, errors=errors)


def _end_with(pipe: int) -> None:
    """Ends this process when the one that supervises it has ended."""
    os.read(pipe, 1)
    os._exit(1)
