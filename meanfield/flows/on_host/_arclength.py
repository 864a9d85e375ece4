r"""Flows in arclength, with merging tokens, for metastable clusters.

In $d\tau = |v|\,dt$ tokens move at unit speed, and $t$ is an integral of $1/|v|$, which
is kept in units of its value at the last merge. Tokens that meet are replaced by one.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Array, Float

from meanfield._array import is_concrete
from meanfield.attention import Attention
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.flows._integration import Problem
from meanfield.flows._log_velocities import log_velocities
from meanfield.flows._trajectory import Trajectory
from meanfield.flows.stepping import Arclength
from meanfield.measures import Points

from ._merging import Flow, Merge, Tokens, merge_close, merge_tokens, new_merges, pad
from ._trajectory import End, host_trajectory

_LEAST_RTOL = 3e-14  # the least relative tolerance of SciPy's solvers
_SHARE = 1e-2  # errors of times are relative to this share of the time scale, or more
_LARGEST_LOG = 690.0  # of numbers that do not overflow


class Step(NamedTuple):
    """An accepted step, from `start` to `end` in arclength.

    Attributes:
        solution: the state at an arclength: tokens, and the time in the unit `scale`.
        start: the arclength at its beginning.
        end: the arclength at its end.
        log_time: logarithm of the time at which arclengths begin.
        log_scale: logarithm of the unit of time.
    """

    solution: Callable[[float], np.ndarray]
    start: float
    end: float
    log_time: float
    log_scale: float

    def log_time_at(self, tau: float) -> float:
        """The logarithm of the time at an arclength."""
        lapse = max(float(self.solution(tau)[-1]), 0.0)
        with np.errstate(divide="ignore"):
            return float(np.logaddexp(self.log_time, np.log(lapse) + self.log_scale))

    def arclength_at(self, log_time: float) -> float:
        """The arclength at a time, given by its logarithm."""
        share = -np.expm1(self.log_time - log_time)  # of the time since arclength 0
        lapse = share * np.exp(log_time - self.log_scale)
        return self.root(lambda tau: lapse - float(self.solution(tau)[-1]))

    def root(self, function: Callable[[float], float]) -> float:
        """Where a falling function becomes zero; an end of the step if nowhere."""
        if function(self.start) <= 0:
            return self.start
        if function(self.end) >= 0:
            return self.end
        options = {"xtol": np.finfo(float).tiny, "rtol": 1e-15}
        return float(scipy.optimize.brentq(function, self.start, self.end, **options))


def integrate_by_arclength(problem: Problem, ts: Float[Array, " times"]) -> Trajectory:
    """The trajectory of tokens that cluster, by steps in arclength.

    Raises:
        InvalidInputError: if a stop is not `Clustered`, or times are traced.
    """
    counts = [stop.most_clusters for stop in problem.stops]
    if not (all(counts) and is_concrete(ts)):
        raise InvalidInputError(
            "Flows in arclength have known times and no stops but `clusters`: leave "
            "`stop` out, or use `adaptive()`."
        )
    mu0, stepping = cast(Points, problem.mu0), problem.stepping
    attention = problem.dynamics
    assert isinstance(stepping, Arclength)
    assert isinstance(attention, Attention)
    rtol = max(stepping.relative_error(ts.dtype), _LEAST_RTOL)
    flow = Flow(attention, mu0, stepping.merge * float(mu0.size), rtol)
    frames, (x, logs) = _Frames(mu0, np.asarray(ts)), (mu0.tokens.x, mu0.log_weights)
    tokens = merge_close(flow, np.asarray(x), np.exp(np.asarray(logs)))
    log_time, left, is_over = -np.inf, stepping.max_steps, False
    merges: list[Merge] = []
    least = max(counts, default=0)
    while left and not (is_over or frames.is_complete or len(tokens.x) <= least):
        piece = _to_next_merge(flow, tokens, log_time, frames, left)
        log_time, left, is_over = piece.log_time, left - piece.n_steps, piece.is_over
        merges += new_merges(tokens, piece.tokens, float(ts[0]) + np.exp(log_time))
        tokens = piece.tokens
    code = Status.FINISHED if frames.is_complete else Status.MAX_STEPS
    code = _status_at_rest(flow, tokens) if is_over else code
    code = Status.CLUSTERED if len(tokens.x) <= least else code
    time, n_steps = float(ts[0]) + np.exp(log_time), stepping.max_steps - left
    end = End(tokens.x[tokens.labels], time, code, n_steps, merges)
    return frames.trajectory(problem, end)


class Piece(NamedTuple):
    """The tokens and the time at the next merge, and the number of steps.

    It is over if no further step is possible: at rest, or after a failure.
    """

    tokens: Tokens
    log_time: float
    n_steps: int
    is_over: bool


def _to_next_merge(
    flow: Flow, tokens: Tokens, log_time: float, frames: "_Frames", limit: int
) -> Piece:
    """The piece of a flow up to the next merge, the last frame or `limit` steps."""
    step, tau, count, is_over = None, 0.0, 0, False
    for step in itertools.islice(_steps(flow, tokens, log_time), limit):
        count += 1
        tau = step.root(functools.partial(_gap, flow, step))
        frames.add(flow, step, tau, tokens)
        if frames.is_complete:  # what comes later is not part of the flow
            tau = min(tau, step.arclength_at(frames.last_log))
        if tau < step.end or frames.is_complete:
            break
    else:
        is_over = count < limit
    if step is None:
        return Piece(tokens, log_time, count, is_over)
    tokens = merge_tokens(flow, flow.project(step.solution(tau)), tokens)
    return Piece(tokens, step.log_time_at(tau), count, is_over)


def _status_at_rest(flow: Flow, tokens: Tokens) -> Status:
    """The ending of a flow without a further step; tokens at rest stay there."""
    log_speed = _rate(flow, tokens.weights, tokens.x)[1]
    if np.isneginf(log_speed):
        return Status.FINISHED
    return Status.MAX_STEPS if np.isfinite(log_speed) else Status.NOT_FINITE


def _steps(flow: Flow, tokens: Tokens, log_time: float) -> Iterator[Step]:
    """The steps of different tokens from a time on, until they are at rest or fail."""
    rate = functools.partial(_rate, flow, tokens.weights)
    first_log = rate(tokens.x)[1]
    if not np.isfinite(first_log):
        return
    age = np.exp(min(log_time + first_log, _LARGEST_LOG))  # in the unit of time
    tolerances = np.full(tokens.x.size + 1, flow.rtol * flow.size)
    tolerances[-1] = flow.rtol * max(age, _SHARE)

    def derivative(_: float, y: np.ndarray) -> np.ndarray:
        v, log_speed = rate(y[:-1].reshape(tokens.x.shape))
        return np.append(v.ravel(), np.exp(min(first_log - log_speed, _LARGEST_LOG)))

    start = np.append(tokens.x.ravel(), 0.0)
    solver = scipy.integrate.DOP853(
        derivative, 0.0, start, np.inf, rtol=flow.rtol, atol=tolerances
    )
    while solver.status == "running":
        solver.step()
        if solver.status == "failed":  # steps shrank to rounding
            return
        yield Step(solver.dense_output(), solver.t_old, solver.t, log_time, -first_log)
        solver.y[:-1] = flow.project(solver.y).ravel()
        solver.f = derivative(solver.t, solver.y)


def _rate(flow: Flow, weights: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, float]:
    """Velocities of unit norm, and the logarithm of the norm.

    Tokens are padded, so that merges compile few programs.
    """
    states = pad(x)
    arguments = states, np.pad(weights, (0, len(states) - len(x)))
    v, log_speed = _velocities(flow, *cast(Any, arguments))
    return np.asarray(v)[: len(x)], float(log_speed)


@eqx.filter_jit
def _velocities(
    flow: Flow, x: Float[Array, "n d"], weights: Float[Array, " n"]
) -> tuple[Array, Array]:
    mu = Points.weighted(x, weights, space=flow.mu0.space)
    u, logs = log_velocities(flow.attention, mu)
    squares = jnp.sum(u**2, axis=1)
    is_moving = (squares > 0) & (weights > 0)
    terms = 2 * logs + jnp.log(jnp.where(is_moving, squares, 1)) + mu.log_weights
    log_speed = jax.nn.logsumexp(jnp.where(is_moving, terms, -jnp.inf)) / 2
    speeds = jnp.exp(jnp.where(is_moving, logs - log_speed, -jnp.inf))
    return speeds[:, None] * u, log_speed


def _gap(flow: Flow, step: Step, tau: float) -> float:
    """The distance of the closest two tokens at an arclength, minus that of merges."""
    x = flow.project(step.solution(tau))
    distances = scipy.spatial.distance.pdist(x)
    return float(distances.min(initial=np.inf)) - flow.merge


class _Frames:
    """The frames of a flow, filled as time passes."""

    def __init__(self, mu0: Points, ts: np.ndarray) -> None:
        self._ts = ts
        with np.errstate(divide="ignore"):
            self._logs = np.log(ts - ts[0])
        self._x = np.repeat(np.asarray(mu0.tokens.x)[None], len(ts), axis=0)
        self._count = int(np.sum(np.isneginf(self._logs)))

    @property
    def last_log(self) -> float:
        """The logarithm of the time from the first frame to the last."""
        return float(self._logs[-1])

    @property
    def is_complete(self) -> bool:
        return self._count == len(self._ts)

    def add(self, flow: Flow, step: Step, end: float, tokens: Tokens) -> None:
        """Adds the frames up to the arclength `end`."""
        last = step.log_time_at(end)
        while not self.is_complete and self._logs[self._count] <= last:
            tau = step.arclength_at(self._logs[self._count])
            self._x[self._count] = flow.project(step.solution(tau))[tokens.labels]
            self._count += 1

    def trajectory(self, problem: Problem, end: End) -> Trajectory:
        """The trajectory of a flow with these frames."""
        return host_trajectory(problem, self._ts, self._x, self._count, end)
