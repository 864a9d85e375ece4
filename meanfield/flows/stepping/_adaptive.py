"""Adaptive steps: as long as their error estimate allows."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._array import positive
from meanfield.measures import AbstractMeasure

from ._predictive import PredictiveSteps
from ._stepping import MAX_STEPS, AbstractStepping, check_steps, method_of

NOISY_RTOL = 1e-3  # relative error of a step under noise; sampling errors are larger


class Adaptive(AbstractStepping):
    """Steps as long as their error estimate allows; see `adaptive`."""

    method: diffrax.AbstractSolver
    rtol: float | None
    steps: int = eqx.field(static=True)

    @property
    @override
    def solver(self) -> diffrax.AbstractSolver:
        return self.method

    @property
    @override
    def max_steps(self) -> int:
        return self.steps

    @override
    def relative_error(self, dtype: jnp.dtype) -> float:
        if self.rtol is not None:
            return self.rtol
        noisy = isinstance(self.method, diffrax.AbstractSRK)
        return NOISY_RTOL if noisy else float(jnp.finfo(dtype).eps ** 0.6)

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        rtol = self.relative_error(ts.dtype)
        size = jax.lax.stop_gradient(mu0.norm(mu0.coordinates))
        scale = jnp.where(size > 0, size, 1)  # a Dirac at 0 has size 0
        # Type checkers mistake the abstract fields of diffrax for required arguments.
        inner = PredictiveSteps(  # pyright: ignore[reportCallIssue]
            controller=diffrax.PIDController(
                rtol=rtol,
                atol=rtol * scale / 10,
                norm=jax.tree_util.Partial(_step_error, mu0),
            )
        )
        # Steps of Dopri8 end at frames, since its interpolant has far larger errors.
        frames = ts if isinstance(self.method, diffrax.Dopri8) else None
        jump_ts = jumps.astype(ts.dtype) if jumps.shape[0] else None
        if frames is None and jump_ts is None:
            return inner
        return diffrax.ClipStepSizeController(inner, frames, jump_ts)


def _step_error(mu0: AbstractMeasure, error: PyTree[Array]) -> Float[Array, ""]:
    """Norm of a scaled error; infinite if a trial step overflowed.

    After an overflow the scaled error is `inf / inf`, which would make the next step
    NaN.
    """
    size = jax.lax.stop_gradient(mu0.error_norm(error))
    return jnp.where(jnp.isnan(size), jnp.inf, size)


def adaptive(
    solver: str | diffrax.AbstractSolver = "tsit5",
    *,
    rtol: float | None = None,
    max_steps: int = MAX_STEPS,
) -> Adaptive:
    r"""Steps as long as their error estimate allows.

    Args:
        solver: `tsit5`, `dopri8`, `kvaerno5` for stiff flows, `shark` for tokens under
            noise, or any solver of diffrax.
        rtol: the relative error of a step in the norm of the measure. `None` stands for
            1e-3 with `shark`, and otherwise for the rounding unit to the power 0.6,
            which is 4e-10 in double precision. The absolute tolerance is a tenth of
            `rtol` times the initial size.
        max_steps: number of accepted and rejected steps after which the flow ends as
            `max-steps`.

    Raises:
        InvalidInputError: if `rtol` or `max_steps` is not positive.
        UnknownNameError: if no solver has that name.

    Examples:
        >>> from meanfield import adaptive
        >>> steps = adaptive("dopri8", rtol=1e-10)
        >>> type(steps.solver).__name__, steps.relative_error(jnp.float64)
        ('Dopri8', 1e-10)
    """
    if rtol is not None:
        positive("rtol", rtol)
    check_steps(max_steps)
    return Adaptive(method_of(solver), rtol, max_steps)
