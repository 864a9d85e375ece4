"""Description of the machine and of the versions of the packages."""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    *("meanfield-attention", "jax", "jaxlib", "equinox", "diffrax", "numpy", "scipy"),
    *("torch", "pykeops", "ott-jax", "geomloss", "POT"),
)
DEVICE = "from meanfield.runs import device; print(device())"


def version(package: str) -> str | None:
    """Version of a distribution; `None` if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def device() -> str:
    """Default device of JAX, queried in another process, which then releases it."""
    command = [sys.executable, "-c", DEVICE]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return process.stdout.strip().splitlines()[-1]


def physical_memory() -> int:
    """Physical memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """Number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe(where: str) -> dict[str, Any]:
    """Description of the machine, its present load, and the versions of packages."""
    return {
        "device": where,
        "processor": _processor(),
        "cores": cores(),
        "memory_gb": round(physical_memory() / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) or "not installed" for name in PACKAGES},
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def _processor() -> str:
    """Name, family and model of the processor, since several models share a name."""
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return platform.processor() or platform.machine()
    lines = [line.split(":", 1) for line in file.read_text().splitlines()]
    pairs = {line[0].strip(): line[1].strip() for line in lines if len(line) == 2}
    name = pairs.get("model name", platform.machine())
    if "cpu family" not in pairs:
        return name
    return f"{name} (family {pairs['cpu family']}, model {pairs.get('model', '?')})"
