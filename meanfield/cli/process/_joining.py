"""Distributed runs: how a process joins the other processes of a run."""

import functools
import importlib
import os
import sys
import threading
from typing import NamedTuple

from meanfield.errors import InvalidInputError, ResourceError

# Environment variable that holds the descriptor of the pipe to the supervisor.
SUPERVISOR_PIPE = "MEANFIELD_SUPERVISED"
HEARTBEAT_TIMEOUT = 10  # seconds of silence after which a process counts as lost
START_TIMEOUT = 120  # seconds to wait for all other processes at the start
SHUTDOWN_TIMEOUT = 1800  # seconds to wait at the end for all other processes
LOOPBACK = "127.0.0.1"
MAX_PROCESSES = 1 << 16  # largest number of processes; the runtime counts in 32 bits
MOST_DEVICES = 1024  # limit on the devices of a process; creating CPU devices is slow
_PORTS = range(1, 1 << 16)


class Place(NamedTuple):
    """Place of a process in a distributed run.

    Attributes:
        address: host and port of process 0; `None` if Slurm provides it.
        number: number of this process, from 0.
        processes: number of processes.
    """

    address: str | None = None
    number: int = 0
    processes: int = 0


def parse_place(text: str) -> Place:
    """Parses the value of `--join`: `slurm`, or `HOST:PORT/NUMBER/COUNT`.

    Raises:
        InvalidInputError: if `text` has neither form.
    """
    if text == "slurm":
        return Place()
    try:
        address, number, count = text.split("/")
        host, port = address.rsplit(":", 1)
        candidate = Place(address, int(number), int(count))
        fits = bool(host) and int(port) in _PORTS
        fits &= 0 <= candidate.number < candidate.processes <= MAX_PROCESSES
    except ValueError:
        fits, candidate = False, Place()
    if not fits:
        raise InvalidInputError(
            "`--join` must be `slurm`, or HOST:PORT/NUMBER/COUNT with the address of "
            "process 0, the number of this process from 0, and the number of processes "
            f"(at most {MAX_PROCESSES}); got `{text}`."
        )
    return candidate


def initialize_runtime(devices: int | None, where: Place | None) -> None:
    """Creates the devices of JAX, and connects to the other processes of the run.

    Args:
        devices: total number of devices; one for each process if `None`.
        where: place of this process in a distributed run, if it belongs to one.

    Raises:
        InvalidInputError: if `devices` is not a multiple of the number of processes.
        ResourceError: if the other processes cannot be reached.
    """
    if devices is None and where is None:
        return
    jax = importlib.import_module("jax")
    if where is None:
        jax.config.update("jax_num_cpu_devices", devices_per_process(devices, 1))
        return
    _quiet_runtime()
    count = where.processes or _tasks()
    n_local_devices = devices_per_process(devices, count)
    jax.config.update("jax_num_cpu_devices", n_local_devices)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # we handle SIGTERM
    try:
        jax.distributed.initialize(
            **_settings(where, n_local_devices),
            initialization_timeout=START_TIMEOUT,
            heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT,
            shutdown_timeout_seconds=SHUTDOWN_TIMEOUT,
        )
    except (RuntimeError, ValueError) as error:
        lines = str(error).strip().splitlines()
        raise ResourceError(
            f"Not all {count} processes could connect: {lines[0] if lines else error}"
        ) from error


def devices_per_process(devices: int | None, processes: int) -> int:
    """Number of devices of each process.

    Raises:
        InvalidInputError: if `devices` is not a multiple of `processes`, or too large.
    """
    if devices is None:
        return 1
    if devices % processes or not 1 <= devices // processes <= MOST_DEVICES:
        limit = MOST_DEVICES * processes
        raise InvalidInputError(
            f"`--devices` is the total of all {processes} processes, and must be a "
            f"multiple of {processes}, at most {limit}; got {devices}."
            if processes > 1
            else f"`--devices` must be from 1 to {limit}; got {devices}."
        )
    return devices // processes


def _tasks() -> int:
    """Number of processes that Slurm has started.

    Raises:
        InvalidInputError: if this process was not started by Slurm.
    """
    count = os.environ.get("SLURM_NTASKS", "")
    if not count.isdecimal():
        raise InvalidInputError(
            "`--join slurm` works only under `srun`: SLURM_NTASKS is not set."
        )
    return int(count)


def _settings(where: Place, devices: int) -> dict[str, object]:
    """Arguments of `jax.distributed.initialize`."""
    if where.address is None:
        return {"cluster_detection_method": "slurm"}
    settings: dict[str, object] = {
        "coordinator_address": where.address,
        "num_processes": where.processes,
        "process_id": where.number,
    }
    pipe = os.environ.get(SUPERVISOR_PIPE)
    if pipe is None:
        return settings
    threading.Thread(target=_exit_with_parent, args=[int(pipe)], daemon=True).start()
    listen_on_loopback()
    first = where.number * devices  # the processes share the devices of this machine
    return {
        **settings,
        "coordinator_bind_address": where.address,
        "local_device_ids": list(range(first, first + devices)),
    }


def listen_on_loopback() -> None:
    """Makes the collectives of one machine listen on the loopback interface only.

    The runtime trusts every connection, and JAX has no option for the interface: Gloo
    would listen on the address of the host name, and NCCL on any interface.
    """
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    runtime = vars(importlib.import_module("jaxlib._jax"))
    gloo = runtime["make_gloo_tcp_collectives"]
    runtime["make_gloo_tcp_collectives"] = functools.partial(gloo, hostname=LOOPBACK)


def _quiet_runtime() -> None:
    """Hides standard output from the runtime, which would print every connection."""
    sys.stdout.flush()
    ours, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdout = os.fdopen(ours, "w", encoding=encoding, errors=errors)


def _exit_with_parent(pipe: int) -> None:
    """Ends this process when the pipe closes, because its supervisor has ended."""
    os.read(pipe, 1)
    os._exit(1)
