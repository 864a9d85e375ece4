"""Steps on a grid, limited by the Courant (CFL) condition."""

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import positive
from meanfield._typing import SolverTime
from meanfield.errors import InvalidInputError
from meanfield.measures import MAX_TURN, AbstractMeasure

from ._control import AbstractRuledControl, Decision, Start, Trial, step_length
from ._ssp import SSPRK3
from ._stepping import MAX_STEPS, AbstractStepping, check_steps

SAFETY = 0.8  # default fraction of the longest step that keeps all masses positive


class Courant(AbstractStepping):
    """Steps that are a fraction of the longest stable step; see `cfl`."""

    share: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)

    @property
    @override
    def solver(self) -> diffrax.AbstractSolver:
        return SSPRK3()

    @property
    @override
    def max_steps(self) -> int:
        return self.steps

    @override
    def relative_error(self, dtype: jnp.dtype) -> float:
        # This is the error, relative to the box, of a third-order step for exp(-t).
        return (self.share * MAX_TURN) ** 4 / 24

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        # Type checkers mistake the abstract fields of diffrax for required arguments.
        inner = CourantSteps(share=self.share)  # pyright: ignore[reportCallIssue]
        jump_ts = jumps.astype(ts.dtype) if jumps.shape[0] else None
        return diffrax.ClipStepSizeController(inner, ts, jump_ts)


class CourantSteps(AbstractRuledControl[None]):
    """A controller without error estimates that accepts a step if it was stable."""

    share: float = eqx.field(static=True)

    @override
    def begin(self, start: Start) -> tuple[Array, None]:
        t0 = start.t0
        rate = start.func(start.terms, t0, start.y0, start.args).courant
        return jnp.asarray(t0 + self._step(rate, start.t1 - t0)), None

    @override
    def decide(self, trial: Trial, state: None) -> Decision:
        rate = jnp.asarray(trial.error)
        keep = jnp.asarray(step_length(trial) * rate <= 1)
        start = jnp.where(keep, trial.t1, trial.t0)
        end = start + self._step(rate, jnp.inf)
        return Decision(keep, start, end, jnp.zeros((), bool), None)

    def _step(self, rate: Array, longest: SolverTime) -> Array:
        return jnp.minimum(self.share / rate, longest)


def cfl(share: float = SAFETY, *, max_steps: int = MAX_STEPS) -> Courant:
    """Steps for densities on grids, by SSP Runge–Kutta of third order.

    Args:
        share: CFL number, as a fraction of the longest step that keeps all masses
            non-negative.
        max_steps: number of accepted and rejected steps after which the flow ends as
            `max-steps`.

    Raises:
        InvalidInputError: if `share` is not in (0, 1].

    Examples:
        >>> from meanfield import cfl
        >>> cfl(0.5).share
        0.5
    """
    positive("share", share)
    check_steps(max_steps)
    if share > 1:
        raise InvalidInputError(
            "`share`, a fraction of the longest stable step, must be in (0, 1]; got "
            f"{share}."
        )
    return Courant(share, max_steps)
