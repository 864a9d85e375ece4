"""Fixed steps: all of the same length."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import is_concrete, positive
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure

from ._control import AbstractRuledControl, Decision, Start, Trial
from ._stepping import MAX_STEPS, AbstractStepping, method_of

N_STEPS = 128  # default number of steps of equal length if velocities jump


class Fixed(AbstractStepping):
    """Steps of one length, shortened only to land on jumps and on the end time."""

    method: diffrax.AbstractSolver
    dt: float = eqx.field(static=True)
    edges: Float[Array, " edges"] | None = None
    is_jump: Bool[Array, " edges"] | None = None

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
        return float("nan")  # fixed steps estimate no error

    @override
    def prepare(
        self, ts: Float[Array, " times"], jumps: Float[Array, " k"]
    ) -> "AbstractStepping":
        if not (is_concrete(ts) and is_concrete(jumps)):
            raise InvalidInputError(
                "`ts` and the times of layers must be concrete if steps are fixed; got "
                "values traced by `jit` or `vmap`. Use `adaptive()` for traced times."
            )
        edges, is_jump = _grid(np.asarray(ts), self.dt, np.asarray(jumps))
        return Fixed(self.method, self.dt, jnp.asarray(edges), jnp.asarray(is_jump))

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        if self.edges is None or self.is_jump is None:
            raise InvalidInputError(
                "Fixed steps must be prepared by `prepare(ts, jumps)` first."
            )
        # Type checkers mistake the abstract fields of diffrax for required arguments.
        return EdgeSteps(edges=self.edges, is_jump=self.is_jump)  # pyright: ignore[reportCallIssue]


class EdgeSteps(AbstractRuledControl[Array]):
    """Steps that end at given times, or at the last float before a jump."""

    edges: Float[Array, " edges"]
    is_jump: Bool[Array, " edges"]

    @override
    def begin(self, start: Start) -> tuple[Array, Array]:
        return self._end(1), jnp.asarray(1)

    @override
    def decide(self, trial: Trial, state: Array) -> Decision:
        start, jump = self.edges[state], self.is_jump[state]
        end = self._end(jnp.minimum(state + 1, self.edges.shape[0] - 1))
        return Decision(keep=True, t0=start, t1=end, jump=jump, state=state + 1)

    def _end(self, index: Array | int) -> Array:
        edge = self.edges[index]
        return jnp.where(self.is_jump[index], _previous_float(edge), edge)


def fixed(dt: float, solver: str | diffrax.AbstractSolver = "euler") -> Fixed:
    """Steps of length `dt`, by default with the explicit Euler method.

    Args:
        dt: the length of a step.
        solver: a name in `solvers`, or an explicit solver of diffrax.

    Raises:
        InvalidInputError: if `dt` is not positive, or the solver is implicit.
        UnknownNameError: if no solver has that name.

    Examples:
        >>> from meanfield import Gaussian, attentions, fixed, flow
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](-one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> run = flow(softmax, start, [0.0, 1.0], stepping=fixed(0.1))  # Euler's steps
        >>> print(run.n_accepted, run.final.covariance, 1 / 3)
        10 [[0.3141]] 0.33333...
    """
    positive("dt", dt)
    method = method_of(solver)
    if isinstance(method, diffrax.AbstractImplicitSolver):
        raise InvalidInputError(
            "`solver` must be an explicit method if steps are fixed; got "
            f"{type(method).__name__}. Use `adaptive` for implicit solvers."
        )
    return Fixed(method, float(dt))


def steps_over_jumps(ts: Numbers, solver: str = "euler") -> Fixed:
    """Fixed steps for velocities that jump: 128 from the first to the last time.

    Raises:
        InvalidInputError: if the times are traced by `jit` or `vmap`.

    Examples:
        >>> from meanfield.flows import steps_over_jumps
        >>> steps_over_jumps([0.0, 2.0]).dt * 128
        2.0
    """
    if not is_concrete(ts):
        raise InvalidInputError(
            "`ts` must be concrete if velocities jump; got values traced by `jit` or "
            "`vmap`. Create `ts` outside `jit` and `vmap`."
        )
    times = np.asarray(ts)
    return fixed(float(times[-1] - times[0]) / N_STEPS or 1.0, solver)


def _grid(
    ts: np.ndarray, dt: float, jumps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edges every `dt` from the first time to the last, and at jumps in between."""
    start, end = float(ts[0]), float(ts[-1])
    count = max(1, int(np.ceil((end - start) / dt * (1 - 1e-12))))
    regular = start + dt * np.arange(count)
    inner_jumps = jumps[(jumps > start) & (jumps < end)].astype(float)
    # A regular edge that equals a jump up to rounding is replaced by the jump.
    is_distant = np.all(
        np.abs(regular[:, None] - inner_jumps[None, :]) > 1e-9 * dt, axis=1
    )
    edges = np.unique(np.concatenate([regular[is_distant], inner_jumps, [end]])).astype(
        ts.dtype
    )
    return edges, np.isin(edges, inner_jumps.astype(ts.dtype))


def _previous_float(t: Array) -> Array:
    """The next smaller floating-point number, with the derivative of `t`."""
    constant = jax.lax.stop_gradient(t)
    return t + (jnp.nextafter(constant, -jnp.inf) - constant)
