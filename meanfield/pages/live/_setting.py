"""Settings of a live page, and the equivalent options of the command line."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield.errors import UnsupportedError
from meanfield.spec import KEYS, RunSpec

from ._law import Law

TOLERANCES = {"points": 1e-7, "gaussian": 1e-9}
"""Default tolerances of a step, by measure; errors of flows are then below 1e-6."""
FINEST = 1e-12  # smallest tolerance; below it rounding dominates


@dataclass(frozen=True)
class Setting:
    """Times and tolerances of a live page, and the equivalent command-line options.

    Attributes:
        title: the headline of the page.
        t0: the initial time.
        t: the last time.
        noise: the diffusivity.
        rtol: the relative tolerance of a step.
        steady: the flow stops at rest once the estimated distance to its limit is below
            this fraction of the initial size. If `None`, a flow at rest goes on.
        max_steps: the largest number of steps.
        seed: the seed of the noise.
        steps: the command-line options for `rtol` and `max_steps`, if set.
        origin: the command-line options for the initial measure; `None` for a member
            of a family, which has no options of its own.
    """

    title: str
    t0: float
    t: float
    noise: float
    rtol: float
    steady: float | None
    max_steps: int
    seed: int
    steps: tuple[str, ...]
    origin: tuple[str, ...] | None


def setting_of(spec: RunSpec, law: Law, title: str) -> Setting:
    """The setting of a page that integrates the flow of a spec.

    Raises:
        UnsupportedError: if the spec has fixed steps, or sets `bound` or `stop`.
    """
    if spec.dt is not None:
        raise UnsupportedError(
            "A page chooses its own steps: leave out `dt`, and set `rtol` instead."
        )
    if spec.bound is not None or spec.stop is not None:
        raise UnsupportedError(
            "The flow on a page can end only at the time `t`, at rest (`steady`) or at "
            "a blow-up: leave out `bound` and `stop`."
        )
    times = spec.times or [spec.at or 0.0, spec.t]
    return Setting(
        title=title,
        t0=times[0],
        t=times[-1],
        noise=spec.noise or 0.0,
        rtol=max(spec.rtol or TOLERANCES[law.measure], FINEST),
        steady=spec.steady,
        max_steps=spec.max_steps,
        seed=spec.seed,
        steps=tuple(
            f"--{name.replace('_', '-')}={getattr(spec, name)}"
            for name in ("rtol", "max_steps")
            if name in spec.model_fields_set and getattr(spec, name) is not None
        ),
        origin=None if spec.is_family else tuple(_origin(spec.as_json(), law)),
    )


def _origin(values: dict[str, Any], law: Law) -> list[str]:
    """The command-line options for the initial measure, with file names, not paths."""
    if "source" in values:
        return ["--from", Path(values["source"]).name, "--at", f"{values['at']}"]
    init = values.get("init", "gaussian")
    is_drawn = "x" in law.start or init != "gaussian"
    if not is_drawn or init.startswith("@"):
        values.pop("n", None)
    names = [key for key in values if KEYS[key].group == "Start" and key != "measure"]
    pairs = [(name, values[name]) for name in [*names, *(["seed"] & values.keys())]]
    return [word for name, value in pairs for word in (f"--{name}", _word(value))]


def _word(value: Any) -> str:
    if isinstance(value, str):
        return f"@{Path(value[1:]).name}" if value.startswith("@") else value
    return json.dumps(value, separators=(",", ":"))
