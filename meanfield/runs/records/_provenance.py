"""Provenance of a result: package versions and device."""

from importlib import metadata
from typing import Any

import jax

DISTRIBUTIONS = ("meanfield-attention", "jax", "jaxlib", "diffrax", "equinox", "numpy")


def provenance() -> dict[str, Any]:
    """The versions of numerical packages, and the device."""
    return {"versions": versions(), "device": device()}


def versions() -> dict[str, str]:
    """The versions of the packages whose arithmetic a result depends on.

    Examples:
        >>> from meanfield import runs
        >>> "jax" in runs.versions()
        True
    """
    numbers = {}
    for name in DISTRIBUTIONS:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            numbers[name] = "not installed"
    return numbers


def device() -> str:
    """The device that arrays live on: `cpu`, or the kind of accelerator.

    Examples:
        >>> from meanfield import runs
        >>> isinstance(runs.device(), str)
        True
    """
    accelerator = jax.devices()[0]
    return accelerator.device_kind if accelerator.platform != "cpu" else "cpu"
