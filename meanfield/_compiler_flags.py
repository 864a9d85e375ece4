"""Flags of XLA with which programs compile faster and run slower."""

import os
from importlib.metadata import version

LEVEL = "xla_backend_optimization_level"
# JAX 0.10 can use its older loop fusion and generate code in one part. Both make
# programs compile faster without making them slower; later versions lack the fusion.
_LEGACY = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def quick_flags(level: int = 0) -> dict[str, int | bool]:
    """The flags, by name, with an optimisation level from 0 to 3.

    Flags that the user has set in `XLA_FLAGS` are left out.
    """
    flags = {LEVEL: level} | (_LEGACY if version("jax").startswith("0.10.") else {})
    users_flags = os.environ.get("XLA_FLAGS", "")
    return {name: flag for name, flag in flags.items() if name not in users_flags}


def as_text(flags: dict[str, int | bool]) -> str:
    """Flags in the form of the variable `XLA_FLAGS`."""
    return " ".join(f"--{name}={str(flag).lower()}" for name, flag in flags.items())
