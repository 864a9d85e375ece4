"""Steps as long as the fluxes of a grid allow: the Courant condition."""

from collections.abc import Callable

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._array import positive
from meanfield._typing import SolverTime
from meanfield.errors import InvalidInputError
from meanfield.measures import TURN, AbstractMeasure, Grid

from ._ruled import AbstractRuledSteps
from ._ssp import SSPRK3
from ._stepping import MAX_STEPS, AbstractStepping, check_steps

SAFETY = 0.8  # of the longest step after which all masses are still positive


class Courant(AbstractStepping):
    """Steps of a share of the longest stable one; see `cfl`."""

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
        return (self.share * TURN) ** 4 / 24  # of the box, as exp(-t) in one step

    @override
    def prepare(
        self, ts: Float[Array, " times"], jumps: Float[Array, " k"]
    ) -> "AbstractStepping":
        return self

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        # Abstract fields of diffrax look like arguments to a type checker.
        inner = CourantSteps(share=self.share)  # pyright: ignore[reportCallIssue]
        jump_ts = jumps.astype(ts.dtype) if jumps.shape[0] else None
        return diffrax.ClipStepSizeController(inner, ts, jump_ts)


class CourantSteps(AbstractRuledSteps[None]):
    """Keeps steps that were stable at each stage; adaptive, but not to an error."""

    share: float = eqx.field(static=True)

    @override
    def init(
        self,
        terms: PyTree[diffrax.AbstractTerm],
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        dt0: SolverTime | None,
        args: PyTree,
        func: Callable,
        error_order: SolverTime | None,
    ) -> tuple[Array, None]:
        rate = func(terms, t0, y0, args).courant
        return jnp.asarray(t0 + self._step(rate, t1 - t0)), None

    @override
    def adapt_step_size(
        self,
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        y1_candidate: PyTree,
        args: PyTree,
        y_error: PyTree | None,
        error_order: SolverTime,
        controller_state: None,
    ) -> tuple[Array, Array, Array, Array, None, diffrax.RESULTS]:
        rate = jnp.asarray(y_error)
        keep = jnp.asarray((t1 - t0) * rate <= 1)
        start = jnp.where(keep, t1, t0)
        end = start + self._step(rate, jnp.inf)
        no_jump = jnp.zeros((), bool)
        return keep, start, end, no_jump, None, diffrax.RESULTS.successful

    def _step(self, rate: Array, longest: SolverTime) -> Array:
        return jnp.minimum(self.share / rate, longest)


def cfl(share: float = SAFETY, *, max_steps: int = MAX_STEPS) -> Courant:
    """Steps for densities on grids, with SSP Runge–Kutta of third order.

    Args:
        share: of the longest step after which no mass is negative.
        max_steps: accepted and rejected steps before the flow ends as `max-steps`.

    Raises:
        InvalidInputError: if `share` is not above 0 and at most 1.
    """
    positive("share", share)
    check_steps(max_steps)
    if share > 1:
        raise InvalidInputError(
            f"`share` of the longest stable step must be in (0, 1]; got {share}."
        )
    return Courant(share, max_steps)


def check_stepping(stepping: AbstractStepping, mu: AbstractMeasure) -> None:
    """Refuses steps that do not fit a measure.

    Raises:
        InvalidInputError: unless a grid is stepped by `cfl()`, and nothing else is.
    """
    if isinstance(mu, Grid) == isinstance(stepping, Courant):
        return
    if isinstance(mu, Grid):
        raise InvalidInputError(
            "A grid is stepped by `cfl()`, which keeps its masses positive; "
            f"`{type(stepping).__name__}` steps do not."
        )
    raise InvalidInputError(
        f"`cfl()` steps are for grids; a {type(mu).__name__} takes `adaptive()` or "
        "`fixed(dt)`."
    )
