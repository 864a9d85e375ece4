r"""Flows of hardmax attention from event to event: the times at which a leader changes.

Between two events the leaders are fixed and velocities are smooth.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Array, Bool, Float

from meanfield._array import is_concrete
from meanfield.attention.hardmax import fix_leaders, margins_of_leaders
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows._integration import Problem, evaluate_field
from meanfield.flows._trajectory import Trajectory
from meanfield.measures import Points

from ._trajectory import End, host_trajectory

_LEAST_RTOL = 3e-14  # the least relative tolerance of SciPy's solvers
_PARTS = 4  # parts of a step; in each, a margin falls and rises at most once
_MOST_CLOSE = 100  # events in a row, each within the tolerance of the one before
_LONGEST_DELAY = 1e-3  # of a step, until the next leaders are known
_LARGEST = 1e300  # instead of an infinite margin
_TINY, _ULPS = float(np.finfo(float).tiny), 1e-15  # tolerances of a root

Solution = Callable[[float], np.ndarray]
Frames = tuple[np.ndarray, np.ndarray]
"""The times of the frames, and their tokens."""


class _Margins(NamedTuple):
    """A time, the margins of all scores, their derivatives, and their rounding."""

    t: float
    values: np.ndarray
    slopes: np.ndarray
    roundings: np.ndarray

    @property
    def delay(self) -> float:
        """The time after which the next leaders are ahead by more than rounding.

        The next ones first share the weight with the last ones.
        """
        is_crossing = (self.values < self.roundings / 2) & (self.slopes < 0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            delays = 2.5 * self.roundings / -self.slopes
        return float(np.max(delays, where=is_crossing, initial=0.0))


class _State(NamedTuple):
    """The time and the tokens of a flow.

    Attributes:
        t: the time.
        y: the tokens.
        ahead: the tokens a little later, whose leaders are the next ones.
        begin: this later time, before which no leader changes.
        n_steps: the number of steps so far.
        n_close: the number of the last events that followed each other at once.
        code: the ending; `finished` while the flow goes on.
    """

    t: float
    y: np.ndarray
    ahead: np.ndarray
    begin: float
    n_steps: int = 0
    n_close: int = 0
    code: Status = Status.FINISHED


class _Piece(NamedTuple):
    """A flow with fixed leaders.

    Attributes:
        problem: the flow whose leaders change.
        mu0: its tokens at the start.
        law: its dynamics with fixed leaders.
        leaders: for each attention, a row for each token with the keys that lead it.
        rtol: the relative error of a step.
        tolerance: the absolute error of a step.
        last: the last time.
    """

    problem: Problem
    mu0: Points
    law: AbstractDynamics
    leaders: list[Bool[Array, "n n"]]
    rtol: float
    tolerance: float
    last: float

    @classmethod
    def begin(cls, problem: Problem, state: _State, last: float) -> "_Piece":
        """The flow after an event."""
        mu0 = cast(Points, problem.mu0)
        rtol = max(problem.stepping.relative_error(state.y.dtype), _LEAST_RTOL)
        tolerance = rtol * (float(mu0.size) or 1.0)
        mu = _move(mu0, _places(mu0, state.ahead))
        parts = _fix_leaders(problem.dynamics, mu)
        return cls(problem, mu0, *parts, rtol, tolerance, last)

    def solver(self, state: _State) -> Any:
        """SciPy's solver from a state on."""
        return scipy.integrate.DOP853(
            self.rate, state.t, state.y, self.last, rtol=self.rtol, atol=self.tolerance
        )

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """The velocities of the tokens."""
        x, time = _places(self.mu0, y), jnp.asarray(t)
        return np.asarray(_velocity(self.law, self.mu0, x, time)).ravel()

    def project(self, y: np.ndarray) -> np.ndarray:
        """The tokens of a state, moved to their space."""
        mu = _move(self.mu0, _places(self.mu0, y))
        return np.array(mu.tokens.x).ravel()

    def fill(
        self, frames: Frames, solution: Solution, span: tuple[float, float]
    ) -> None:
        """Fills the frames after the first time of a span, up to the second."""
        times, x = frames
        for i in np.flatnonzero((times > span[0]) & (times <= span[1])):
            x[i] = self.project(solution(times[i])).reshape(x[i].shape)

    def margins(self, solution: Solution, t: float) -> _Margins:
        """The margins of all scores at a time."""
        laws, x = (self.problem.dynamics, self.law), _places(self.mu0, solution(t))
        tolerances = jnp.asarray([self.tolerance, self.rtol], x.dtype)
        state = self.mu0, x, jnp.asarray(t)
        values, *rest = map(np.asarray, _margins(laws, state, self.leaders, tolerances))
        return _Margins(t, np.minimum(values, _LARGEST), *rest)

    def first_change(
        self, solution: Solution, begin: float, end: float
    ) -> float | None:
        """The first time at which a leader changes, if any."""
        places = np.linspace(begin, end, _PARTS + 1)
        samples = [self.margins(solution, float(t)) for t in places]
        if np.any(samples[0].values < 0):
            return begin
        for left, right in itertools.pairwise(samples):
            times = self._changes(solution, left, right)
            if times:
                return min(times)
        return None

    def _changes(
        self, solution: Solution, left: _Margins, right: _Margins
    ) -> list[float]:
        """The first zeros of margins that are negative at the right, or in between."""

        def worst(entries: np.ndarray, t: float) -> float:
            return float(np.min(self.margins(solution, t).values[entries]))

        def zero(entries: np.ndarray, end: float) -> float:
            bounds, options = (left.t, end), {"xtol": _TINY, "rtol": _ULPS}
            function = functools.partial(worst, entries)
            return float(scipy.optimize.brentq(function, *bounds, **options))

        is_past = right.values < 0
        times = [zero(is_past, right.t)] if np.any(is_past) else []
        for index in np.argwhere(_can_dip(left, right)):
            entry = np.zeros_like(is_past)
            entry[tuple(index)] = True
            lowest = scipy.optimize.minimize_scalar(
                functools.partial(worst, entry), bounds=(left.t, right.t)
            )
            times += [zero(entry, float(lowest.x))] if lowest.fun < 0 else []
        return times


def _can_dip(left: _Margins, right: _Margins) -> np.ndarray:
    """Which margins fall and rise again, and could be negative in between.

    A convex function is above its tangents at both ends.
    """
    falls = (left.slopes < 0) & (right.slopes > 0) & (right.values >= 0)
    with np.errstate(over="ignore", invalid="ignore"):  # of large or infinite margins
        bends = np.where(falls, right.slopes - left.slopes, 1)
        rest = left.values - right.values + right.slopes * (right.t - left.t)
        return falls & (left.values + left.slopes * rest / bends < 0)


def _places(mu0: Points, y: np.ndarray) -> Float[Array, "n d"]:
    """The tokens of a state as an array with a row for each."""
    return jnp.asarray(y.reshape(mu0.tokens.x.shape))


@eqx.filter_jit
def _move(mu0: Points, x: Float[Array, "n d"]) -> Points:
    """The measure with the tokens of a state, in their space."""
    return mu0.replace_coordinates(mu0.space.project(x))


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
    times = np.asarray(ts)
    x = np.asarray(cast(Points, problem.mu0).tokens.x)
    frames = np.repeat(x[None], len(times), axis=0)
    state = _State(float(times[0]), x.ravel(), x.ravel(), float(times[0]))
    while state.t < times[-1] and state.code is Status.FINISHED:
        piece = _Piece.begin(problem, state, float(times[-1]))
        if np.all(np.isfinite(piece.rate(state.t, state.y))):
            with np.errstate(over="ignore", invalid="ignore"):  # of huge tokens
                state = _to_next_event(piece, state, (times, frames))
        else:
            state = state._replace(code=Status.NOT_FINITE)
    n_saved = int(np.sum(times <= state.t))
    end = End(state.y.reshape(x.shape), state.t, state.code, state.n_steps)
    return host_trajectory(problem, times, frames, n_saved, end)


def _to_next_event(piece: _Piece, state: _State, frames: Frames) -> _State:
    """The state at the next event, or at the last time; frames before are filled."""
    solver, n_steps = piece.solver(state), state.n_steps
    while solver.status == "running" and n_steps < piece.problem.stepping.max_steps:
        n_steps += 1
        solver.step()
        if solver.status == "failed":  # steps shrank to rounding
            break
        solution, begin = solver.dense_output(), max(solver.t_old, state.begin)
        is_later = begin < solver.t
        event = piece.first_change(solution, begin, solver.t) if is_later else None
        end = solver.t if event is None else event
        piece.fill(frames, solution, (solver.t_old, end))
        if event is not None:
            step = solver.t - solver.t_old
            return _state_at_event(piece, state, solution, (event, step), n_steps)
        solver.y = piece.project(solver.y)
        solver.f = piece.rate(solver.t, solver.y)
    is_over = solver.status == "finished"
    code = Status.FINISHED if is_over else Status.MAX_STEPS
    return _State(solver.t, solver.y, solver.y, solver.t, n_steps, code=code)


def _state_at_event(
    piece: _Piece,
    state: _State,
    solution: Solution,
    place: tuple[float, float],
    n_steps: int,
) -> _State:
    """The state at an event, from its time and the length of the step around it."""
    t, step = place
    y, delay = piece.project(solution(t)), piece.margins(solution, t).delay
    delay = float(np.clip(delay, piece.rtol * step, _LONGEST_DELAY * step))
    n_close = state.n_close + 1 if t <= state.begin + delay else 0
    code = Status.MAX_STEPS if n_close > _MOST_CLOSE else Status.FINISHED
    return _State(t, y, solution(t + delay), t + delay, n_steps, n_close, code)


@eqx.filter_jit
def _velocity(
    law: AbstractDynamics, mu0: Points, x: Float[Array, "n d"], t: Float[Array, ""]
) -> Float[Array, "n d"]:
    """The velocities of tokens, moved to their space."""
    return evaluate_field(law, _move(mu0, x), t, None)[0]


@eqx.filter_jit
def _margins(
    laws: tuple[AbstractDynamics, AbstractDynamics],
    state: tuple[Points, Float[Array, "n d"], Float[Array, ""]],
    leaders: list[Bool[Array, "n n"]],
    tolerances: Float[Array, "2"],
) -> tuple[Array, Array, Array]:
    """The margins of all scores, their derivatives in time, and their rounding."""
    mu, t = _move(*state[:2]), state[2]
    reach = jnp.maximum(tolerances[0], tolerances[1] * mu.size)

    def values(x: Float[Array, "n d"]) -> tuple[Array, Array]:
        return margins_of_leaders(laws[0], mu.replace_coordinates(x), leaders, reach)

    velocity = evaluate_field(laws[1], mu, t, None)[0]
    return jax.jvp(values, (mu.tokens.x,), (velocity,), has_aux=True)


_fix_leaders = eqx.filter_jit(fix_leaders)
