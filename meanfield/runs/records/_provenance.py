"""Where numbers came from: versions, device, format."""

from importlib import metadata
from typing import Any

import jax

DISTRIBUTIONS = ("meanfield-attention", "jax", "jaxlib", "diffrax", "equinox", "numpy")


def provenance() -> dict[str, Any]:
    """Versions of what computes, and the device it computes on."""
    return {"versions": versions(), "device": device()}


def versions() -> dict[str, str]:
    """The versions of the packages whose arithmetic a result depends on."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def device() -> str:
    """The device that arrays live on: `cpu`, or the accelerator's kind."""
    first = jax.devices()[0]
    return first.device_kind if first.platform != "cpu" else "cpu"
