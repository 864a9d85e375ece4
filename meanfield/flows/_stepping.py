"""How time is stepped: adaptively to a tolerance, or by a fixed step."""

import abc
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield._array import is_concrete, positive, require
from meanfield._registry import Registry
from meanfield._typing import SolverTime
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure

from ._predictive import Predictive
from ._ruled import AbstractRuledSteps

MAX_STEPS = 100_000
NOISY_RTOL = 1e-3  # of a step under noise: beyond, tokens err by their number

solvers: Registry[Callable[[], diffrax.AbstractSolver]] = Registry("solver")
solvers.register("tsit5")(diffrax.Tsit5)
solvers.register("dopri8")(diffrax.Dopri8)
solvers.register("kvaerno5")(diffrax.Kvaerno5)
solvers.register("euler")(diffrax.Euler)
solvers.register("heun")(diffrax.Heun)
solvers.register("shark")(diffrax.ShARK)  # for tokens under noise


class AbstractStepping(eqx.Module):
    """A solver and a rule for the lengths of its steps."""

    @property
    @abc.abstractmethod
    def solver(self) -> diffrax.AbstractSolver:
        """The Runge–Kutta method."""

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """Steps after which the flow ends as `max-steps`."""

    @abc.abstractmethod
    def relative_error(self, dtype: jnp.dtype) -> float:
        """The relative error of one step."""

    @abc.abstractmethod
    def prepare(
        self, ts: Float[Array, " times"], jumps: Float[Array, " k"]
    ) -> "AbstractStepping":
        """The stepping for these times: all that must be known outside `jit`."""

    @abc.abstractmethod
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        """The step-size controller that lands on jumps and straddles none."""


class Adaptive(AbstractStepping):
    """Steps as long as their estimated error allows; see `adaptive`."""

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
        rtol = self.relative_error(ts.dtype)
        size = jax.lax.stop_gradient(mu0.norm(mu0.coordinates))
        scale = jnp.where(size > 0, size, 1)  # at the origin any unit is as good
        # Abstract fields of diffrax look like arguments to a type checker.
        inner = Predictive(  # pyright: ignore[reportCallIssue]
            controller=diffrax.PIDController(
                rtol=rtol,
                atol=rtol * scale / 10,
                norm=jax.tree_util.Partial(_step_error, mu0),
            )
        )
        # The interpolant of Dopri8 is orders worse than its steps: land on the frames.
        frames = ts if isinstance(self.method, diffrax.Dopri8) else None
        jump_ts = jumps.astype(ts.dtype) if jumps.shape[0] else None
        if frames is None and jump_ts is None:
            return inner
        return diffrax.ClipStepSizeController(inner, frames, jump_ts)


class Fixed(AbstractStepping):
    """Steps of one length, shortened only to land on jumps and on the end."""

    method: diffrax.AbstractSolver
    dt: float = eqx.field(static=True)
    edges: Float[Array, " edges"] | None = None
    jumped: Bool[Array, " edges"] | None = None

    @property
    @override
    def solver(self) -> diffrax.AbstractSolver:
        return self.method

    @property
    @override
    def max_steps(self) -> int:
        return MAX_STEPS if self.edges is None else self.edges.shape[0]

    @override
    def relative_error(self, dtype: jnp.dtype) -> float:
        return float("nan")  # nobody estimates it

    @override
    def prepare(
        self, ts: Float[Array, " times"], jumps: Float[Array, " k"]
    ) -> "AbstractStepping":
        if not (is_concrete(ts) and is_concrete(jumps)):
            raise InvalidInputError(
                "Fixed steps are laid out before the flow is traced: `ts` and the "
                "times of layers must be numbers, not results of a surrounding `jit` "
                "or `vmap`."
            )
        edges, jumped = _grid(np.asarray(ts), self.dt, np.asarray(jumps))
        return Fixed(self.method, self.dt, jnp.asarray(edges), jnp.asarray(jumped))

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        if self.edges is None or self.jumped is None:
            raise InvalidInputError("A fixed stepping must be prepared with its times.")
        # Abstract fields of diffrax look like arguments to a type checker.
        return EdgeSteps(edges=self.edges, jumped=self.jumped)  # pyright: ignore[reportCallIssue]


def _step_error(mu0: AbstractMeasure, error: PyTree[Array]) -> Float[Array, ""]:
    """The size of a scaled error; infinite where a trial step overflowed.

    Such a step has `inf / inf` for an error, and a NaN would become the next step.
    """
    size = jax.lax.stop_gradient(mu0.error_norm(error))
    return jnp.where(jnp.isnan(size), jnp.inf, size)


class EdgeSteps(AbstractRuledSteps[Array]):
    """From edge to edge; before a jump, to the last number before it."""

    edges: Float[Array, " edges"]
    jumped: Bool[Array, " edges"]

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
    ) -> tuple[Array, Array]:
        return self._end(1), jnp.asarray(1)

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
        controller_state: Array,
    ) -> tuple[bool, Array, Array, Array, Array, diffrax.RESULTS]:
        here = controller_state
        start = self.edges[here]
        end = self._end(jnp.minimum(here + 1, self.edges.shape[0] - 1))
        made_jump = self.jumped[here]
        return True, start, end, made_jump, here + 1, diffrax.RESULTS.successful

    def _end(self, index: Array | int) -> Array:
        edge = self.edges[index]
        return jnp.where(self.jumped[index], jnp.nextafter(edge, -jnp.inf), edge)


def adaptive(
    solver: str | diffrax.AbstractSolver = "tsit5",
    *,
    rtol: float | None = None,
    max_steps: int = MAX_STEPS,
) -> Adaptive:
    r"""Adaptive steps.

    Args:
        solver: `tsit5`, `dopri8`, `kvaerno5` where the flow is stiff, `shark` for
            tokens under noise, or any of diffrax.
        rtol: the relative error of a step in the norm of the measure; `None` is
            $\epsilon^{0.6}$ of the dtype, 4e-10 in double precision, and 1e-3 for
            `shark`. The absolute tolerance is a tenth of it times the initial size.
        max_steps: accepted and rejected steps before the flow ends as `max-steps`.

    Raises:
        InvalidInputError: if `rtol` is not positive.
        UnknownNameError: if no solver has that name.
    """
    if rtol is not None:
        positive("rtol", rtol)
    check_steps(max_steps)
    method = _method(solver)
    return Adaptive(method, rtol, max_steps)


def fixed(dt: float, solver: str | diffrax.AbstractSolver = "euler") -> Fixed:
    """Steps of length `dt`, explicit Euler unless another `solver` is named.

    Raises:
        InvalidInputError: if `dt` is not positive, or the solver is implicit.
        UnknownNameError: if no solver has that name.
    """
    positive("dt", dt)
    method = _method(solver)
    if isinstance(method, diffrax.AbstractImplicitSolver):
        raise InvalidInputError(
            "Implicit solvers choose their steps by error: use `adaptive`."
        )
    return Fixed(method, float(dt))


def check_steps(max_steps: int) -> None:
    """Refuses a number of steps that is none.

    Raises:
        InvalidInputError: unless it is whole and positive.
    """
    if not isinstance(max_steps, int) or max_steps < 1:
        raise InvalidInputError(
            f"`max_steps` must be a whole number, at least 1; got {max_steps!r}."
        )


def _method(solver: str | diffrax.AbstractSolver) -> diffrax.AbstractSolver:
    what = "`solver` is a name of `solvers`, or a solver of diffrax"
    require(what, solver, (str, diffrax.AbstractSolver))
    return solvers[solver]() if isinstance(solver, str) else solver


def _grid(
    ts: np.ndarray, dt: float, jumps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edges every `dt` from the first time to the last, with the jumps between."""
    start, end = float(ts[0]), float(ts[-1])
    count = max(1, int(np.ceil((end - start) / dt * (1 - 1e-12))))
    regular = start + dt * np.arange(count)
    inside = jumps[(jumps > start) & (jumps < end)].astype(float)
    # An edge within rounding of a jump is the jump.
    far = np.all(np.abs(regular[:, None] - inside[None, :]) > 1e-9 * dt, axis=1)
    edges = np.unique(np.concatenate([regular[far], inside, [end]])).astype(ts.dtype)
    return edges, np.isin(edges, inside.astype(ts.dtype))
