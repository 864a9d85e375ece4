"""Steps that a spec asks for, of measures whose steps have errors."""

import numpy as np
from jaxtyping import Float

from meanfield.errors import InvalidInputError
from meanfield.flows import AbstractStepping, adaptive, fixed
from meanfield.spec import RunSpec

LAID_OUT = 10_000_000  # fixed steps of a segment, which are a list of times


def error_steps(
    spec: RunSpec, ts: Float[np.ndarray, " times"], *, by_error: str, by_length: str
) -> AbstractStepping:
    """Adaptive steps, or fixed ones where the spec has a `dt`.

    Args:
        spec: of the run.
        ts: the times of its frames.
        by_error: the solver of adaptive steps, unless the spec names one.
        by_length: the solver of fixed steps, likewise.

    Raises:
        InvalidInputError: if a fixed step needs more steps than are allowed.
        UnknownNameError: if there is no such solver.
    """
    named = spec.solver if "solver" in spec.model_fields_set else None
    if spec.dt is None:
        return adaptive(named or by_error, rtol=spec.rtol, max_steps=spec.max_steps)
    check_count(spec, ts, spec.dt)
    return fixed(spec.dt, named or by_length)


def check_count(spec: RunSpec, ts: Float[np.ndarray, " times"], dt: float) -> None:
    """Refuses more steps of a length `dt` than a segment is allowed.

    Raises:
        InvalidInputError: saying how many there would be.
    """
    edges = np.append(ts[:: spec.segment], ts[-1])
    steps = float(np.max(np.diff(edges))) / dt
    allowed = min(spec.max_steps, LAID_OUT)
    if steps > allowed:
        raise InvalidInputError(
            f"Steps of {dt:g} are {steps:.3g} in a segment, and at most {allowed} "
            "are allowed (`max_steps`); choose a longer `dt`, or more `frames`."
        )
