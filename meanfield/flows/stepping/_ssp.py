r"""Strong-stability-preserving Runge–Kutta, for densities on grids.

Each stage is an average of explicit Euler steps: what one Euler step keeps (positivity,
monotonicity), all of it keeps.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree
from typing_extensions import override

from meanfield._typing import SolverTime
from meanfield.measures import GridState

SHARES = (1.0, 1 / 4, 2 / 3)  # of an Euler step from the last stage; y0 has the rest
TIMES = (0.0, 1.0, 1 / 2)


class Step(NamedTuple):
    """When a step begins and ends, and what else diffrax hands on."""

    t0: SolverTime
    t1: SolverTime
    args: PyTree
    made_jump: Any


class AbstractGridSolver(diffrax.AbstractSolver[None]):
    """Single steps of a grid: nothing is kept between them, straight lines within."""

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable] = diffrax.LocalLinearInterpolation

    @abc.abstractmethod
    def advance(self, terms: Any, step: Step, y0: GridState) -> tuple[GridState, Any]:
        """The state after a step, and what the step tells its controller."""

    @override
    def init(
        self,
        terms: PyTree,
        t0: SolverTime,
        t1: SolverTime,
        y0: PyTree,
        args: PyTree,
    ) -> None:
        return None

    @override
    def func(
        self, terms: Any, t0: SolverTime, y0: GridState, args: PyTree
    ) -> GridState:
        return terms.vf(t0, y0, args)

    @override
    def step(
        self,
        terms: Any,
        t0: SolverTime,
        t1: SolverTime,
        y0: GridState,
        args: PyTree,
        solver_state: None,
        made_jump: Any,
    ) -> tuple[GridState, Any, dict[str, PyTree], None, diffrax.RESULTS]:
        y1, told = self.advance(terms, Step(t0, t1, args, made_jump), y0)
        return y1, told, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful


class SSPRK3(AbstractGridSolver):
    r"""Three stages, of third order; Shu and Osher 1988, eq. (2.18).

    In place of an error its steps report the largest rate of any stage: the inverse of
    the longest Euler step that is stable there.
    """

    @override
    def order(self, terms: PyTree) -> int:
        return 3

    @override
    def advance(self, terms: Any, step: Step, y0: GridState) -> tuple[GridState, Any]:
        dt = jnp.asarray(step.t1 - step.t0)

        def stage(y: GridState, known: tuple[Array, Array]) -> tuple[GridState, Array]:
            share, at = known
            rate = terms.vf(step.t0 + at * dt, y, step.args)
            mixed = lambda a, b, k: (1 - share) * a + share * (b + dt * k)
            return jax.tree.map(mixed, y0, y, rate), rate.courant

        # A loop over stages, since a field of attention takes long to compile.
        stages = jnp.asarray(SHARES, dt.dtype), jnp.asarray(TIMES, dt.dtype)
        y1, rates = jax.lax.scan(stage, y0, stages)
        # Behind a stage that was not stable there are negative masses, and no rates.
        is_stable = jnp.cumprod(dt * rates <= 1).astype(bool)
        is_reached = jnp.append(True, is_stable[:-1])
        return y1, jnp.max(rates, where=is_reached, initial=0)
