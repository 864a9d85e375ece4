r"""Strong-stability-preserving Runge–Kutta, for densities on grids.

Each stage is an average of explicit Euler steps, so the method preserves what one Euler
step preserves: positivity and monotonicity.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree
from typing_extensions import override

from meanfield._typing import SolverTime

Y = TypeVar("Y")  # the state of a grid, with the rate `courant`
SHARES = (1.0, 1 / 4, 2 / 3)  # weights of the Euler steps in the averages with `y0`
TIMES = (0.0, 1.0, 1 / 2)


class Step(NamedTuple):
    """The beginning and end of a step, and other arguments of diffrax."""

    t0: SolverTime
    t1: SolverTime
    args: PyTree
    made_jump: Any


class AbstractGridSolver(diffrax.AbstractSolver[None], Generic[Y]):
    """A one-step method for grids, with linear interpolation within a step."""

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable] = diffrax.LocalLinearInterpolation

    @abc.abstractmethod
    def advance(self, terms: Any, step: Step, y0: Y) -> tuple[Y, Any]:
        """The state after a step, and the rate that the controller reads."""

    @override
    def init(
        self, terms: PyTree, t0: SolverTime, t1: SolverTime, y0: PyTree, args: PyTree
    ) -> None:
        return None

    @override
    def func(self, terms: Any, t0: SolverTime, y0: Y, args: PyTree) -> Y:
        return terms.vf(t0, y0, args)

    @override
    def step(
        self,
        terms: Any,
        t0: SolverTime,
        t1: SolverTime,
        y0: Y,
        args: PyTree,
        solver_state: None,
        made_jump: Any,
    ) -> tuple[Y, Any, dict[str, PyTree], None, diffrax.RESULTS]:
        y1, rate = self.advance(terms, Step(t0, t1, args, made_jump), y0)
        return y1, rate, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful


class SSPRK3(AbstractGridSolver[Any]):
    r"""SSP Runge–Kutta with three stages, of third order; Shu, Osher 1988, eq. (2.18).

    Instead of an error, a step reports the largest rate of its stages. The rate of a
    stage is the inverse of the longest Euler step that is stable there.
    """

    @override
    def order(self, terms: PyTree) -> int:
        return 3

    @override
    def advance(self, terms: Any, step: Step, y0: Any) -> tuple[Any, Any]:
        dt = jnp.asarray(step.t1 - step.t0)

        def stage(y: Any, coefficients: tuple[Array, Array]) -> tuple[Any, Array]:
            share, node = coefficients
            rate = terms.vf(step.t0 + node * dt, y, step.args)
            mix = lambda a, b, k: (1 - share) * a + share * (b + dt * k)
            return jax.tree.map(mix, y0, y, rate), rate.courant

        # The field is slow to compile, and a loop over stages compiles it only once.
        stages = jnp.asarray(SHARES, dt.dtype), jnp.asarray(TIMES, dt.dtype)
        y1, rates = jax.lax.scan(stage, y0, stages)
        # After an unstable stage, masses may be negative, and rates are meaningless.
        is_stable = jnp.cumprod(dt * rates <= 1).astype(bool)
        is_reached = jnp.append(True, is_stable[:-1])
        return y1, jnp.max(rates, where=is_reached, initial=0)
