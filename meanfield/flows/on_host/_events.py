r"""Flows of hardmax attention from event to event: the times at which a leader changes.

Between two events the leaders are fixed and velocities are smooth.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Array, Bool, Float

from meanfield._array import is_concrete
from meanfield.attention.hardmax import fix_leaders, margin_of_leaders
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows._integration import Problem, evaluate_field
from meanfield.flows._trajectory import Trajectory
from meanfield.measures import Points

from ._trajectory import End, host_trajectory

_LEAST_RTOL = 3e-14  # the least relative tolerance of SciPy's solvers
_CHECKS = 4  # places within a step at which leaders are checked
_MOST_CLOSE = 100  # events in a row, each within the tolerance of the one before
_LARGEST = 1e300  # a margin without any other key
_TINY, _ULPS = float(np.finfo(float).tiny), 1e-15  # tolerances of a root

Solution = Callable[[float], np.ndarray]


class _Piece(NamedTuple):
    """A flow with fixed leaders.

    Attributes:
        problem: the flow whose leaders change.
        law: its dynamics with fixed leaders.
        leaders: who leads each token, for each attention.
        rtol: the relative error of a step.
        last: the last time.
    """

    problem: Problem
    law: AbstractDynamics
    leaders: list[Bool[Array, "n n"]]
    rtol: float
    last: float

    @classmethod
    def begin(cls, problem: Problem, state: "_State", last: float) -> "_Piece":
        """The flow after an event."""
        rtol = max(problem.stepping.relative_error(state.y.dtype), _LEAST_RTOL)
        mu = _measure(problem, state.ahead)
        return cls(problem, *_fix_leaders(problem.dynamics, mu), rtol, last)

    @property
    def tolerance(self) -> float:
        """The absolute error of a step."""
        return self.rtol * float(self.problem.mu0.size)

    def solver(self, state: "_State") -> Any:
        """SciPy's solver from a state on."""
        return scipy.integrate.DOP853(
            self.rate, state.t, state.y, self.last, rtol=self.rtol, atol=self.tolerance
        )

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """The velocities of the tokens."""
        mu, time = _measure(self.problem, y), jnp.asarray(t)
        return np.asarray(evaluate_field(self.law, mu, time, None)[0]).ravel()

    def project(self, y: np.ndarray) -> np.ndarray:
        """The tokens of a state, moved to their space."""
        return np.array(_measure(self.problem, y).tokens.x).ravel()

    def first_change(
        self, solution: Solution, begin: float, end: float
    ) -> float | None:
        """The first time at which a leader changes, if any."""
        reach = jnp.asarray(self.tolerance)

        def margin(t: float) -> float:
            mu = _measure(self.problem, solution(t))
            value = _margin(self.problem.dynamics, mu, self.leaders, reach)
            return min(float(value), _LARGEST)

        if margin(begin) < 0:
            return begin
        for a, b in itertools.pairwise(np.linspace(begin, end, _CHECKS + 1)):
            if margin(b) < 0:
                root = scipy.optimize.brentq(margin, a, b, xtol=_TINY, rtol=_ULPS)
                return float(root)
        return None


def _measure(problem: Problem, y: np.ndarray) -> Points:
    """The measure with the tokens of a state, in their space."""
    mu0 = cast(Points, problem.mu0)
    x = jnp.asarray(y.reshape(mu0.tokens.x.shape))
    return mu0.replace_coordinates(mu0.space.project(x))


class _State(NamedTuple):
    """Where a flow is.

    Attributes:
        t: the time.
        y: the tokens.
        ahead: the tokens a little later, whose leaders are the next ones.
        n_steps: the number of steps so far.
        n_close: the number of the last events that followed each other at once.
    """

    t: float
    y: np.ndarray
    ahead: np.ndarray
    n_steps: int = 0
    n_close: int = 0


def integrate_by_events(problem: Problem, ts: Float[Array, " times"]) -> Trajectory:
    """The trajectory of tokens under hardmax attention.

    Raises:
        InvalidInputError: if a flow has stops, or its times are traced.
    """
    if problem.stops or not is_concrete(ts):
        raise InvalidInputError(
            "Flows from event to event have known times and no stops: leave `stop` out,"
            " or use `fixed(dt)`."
        )
    times, limit = np.asarray(ts), problem.stepping.max_steps
    mu0 = cast(Points, problem.mu0)
    frames = np.repeat(np.asarray(mu0.tokens.x)[None], len(times), axis=0)
    state, code = _State(float(times[0]), *[frames[0].ravel()] * 2), Status.FINISHED
    while state.t < times[-1] and code is Status.FINISHED:
        piece = _Piece.begin(problem, state, float(times[-1]))
        state = _to_next_event(piece, state, (times, frames), limit)
        if not np.all(np.isfinite(state.y)):
            code = Status.NOT_FINITE
        elif state.t < times[-1] and (
            state.n_steps >= limit or state.n_close >= _MOST_CLOSE
        ):
            code = Status.MAX_STEPS
    n_saved = int(np.sum(times <= state.t))
    end = End(state.y.reshape(frames[0].shape), state.t, code, state.n_steps)
    return host_trajectory(problem, times, frames, n_saved, end)


def _to_next_event(
    piece: _Piece, state: _State, frames: tuple[np.ndarray, np.ndarray], limit: int
) -> _State:
    """The state at the next event, or at the last time; frames before are filled."""
    solver, n_steps = piece.solver(state), state.n_steps
    times, x = frames
    while solver.status == "running" and n_steps < limit:
        n_steps += 1
        solver.step()
        if solver.status == "failed":  # steps shrank to rounding
            return _State(solver.t, solver.y, solver.y, n_steps, _MOST_CLOSE)
        solution = solver.dense_output()
        little = piece.rtol * (solver.t - solver.t_old)
        begin = max(solver.t_old, state.t + little)
        event = piece.first_change(solution, begin, solver.t)
        end = solver.t if event is None else event
        for i in np.flatnonzero((times > solver.t_old) & (times <= end)):
            x[i] = piece.project(solution(times[i])).reshape(x[i].shape)
        if event is not None:
            n_close = state.n_close + 1 if event <= state.t + 2 * little else 0
            ahead = solution(min(event + little, solver.t))
            y = piece.project(solution(event))
            return _State(event, y, ahead, n_steps, n_close)
        solver.y = piece.project(solver.y)
        solver.f = piece.rate(solver.t, solver.y)
    return _State(solver.t, solver.y, solver.y, n_steps)


@eqx.filter_jit
def _margin(
    dynamics: AbstractDynamics,
    mu: Points,
    leaders: list[Bool[Array, "n n"]],
    reach: Float[Array, ""],
) -> Float[Array, ""]:
    return margin_of_leaders(dynamics, mu, leaders, reach)


_fix_leaders = eqx.filter_jit(fix_leaders)
