"""Building blocks of measurements: comparisons, orders, gradient ascents."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy import stats

from meanfield._typing import PRNGKey
from meanfield.measures import Points
from meanfield.tokens import Tokens

from ._adam import adam, zero_moments
from ._case import Case
from ._check import Ascent, Check, Fit, Relation

EPS = float(np.finfo(np.float64).eps)
EXACT = (
    "rounding: sums of fewer than 1e3 products of size 1 and exponentials of scores "
    "below 20 lose at most 1e3 × 20 × 2e-16 of the largest entry"
)
ROUNDING = 4e-12
# Ten tolerances are less than one, so that a slope that is wrong by one is a violation.
ORDER_TOLERANCE = 0.095
# Numbers of random starts and of steps of a gradient ascent. Each constant is a pair:
# the number for a quick verification, then the number for a full one.
STARTS, STEPS = (12, 24), (150, 400)
MOST_STEPS = 1000
LEARNING_RATE = 0.05  # Adam's step size
LARGEST_LOG = 700.0  # largest logarithm that is exponentiated; exp(710) overflows
# Bound in standard errors. A correct mean exceeds it by chance once in 150 000 draws.
SIGMAS = 4.5

Parameters = Mapping[str, Any]
Number = float | int


class Slack(TypedDict):
    """Keyword arguments of a check: the tolerance, and how it was derived."""

    tolerance: Number
    why: str


def gap(
    label: str,
    actual: Any,
    expected: Any,
    *,
    tolerance: Number,
    why: str,
    scale: Number | None = None,
) -> Check:
    """Check of the largest difference of two arrays, relative to `expected`.

    Args:
        label: what is compared.
        actual: result of the library.
        expected: result of an independent computation.
        tolerance: allowed difference, relative to the largest entry of `expected`.
        why: how the tolerance was derived.
        scale: replaces the largest entry of `expected`, if that entry can vanish.

    Raises:
        ValueError: if the shapes differ.
    """
    left, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if left.shape != right.shape:
        raise ValueError(
            "The compared arrays must have equal shapes; "
            f"got {left.shape} and {right.shape}."
        )
    size = float(np.max(np.abs(right))) if scale is None else scale
    worst = float(np.max(np.abs(left - right))) / (size or 1.0)
    return Check(label, worst, "<=", 0.0, tolerance, why)


def close(label: str, actual: object, expected: object) -> Check:
    """Check that two arrays agree up to the rounding of sums and exponentials."""
    return gap(label, actual, expected, tolerance=ROUNDING, why=EXACT)


def compare(
    label: str,
    value: Any,
    relation: Relation,
    bound: Number,
    *,
    tolerance: Number = 0.0,
    why: str = "a strict margin is claimed: nothing is added",
) -> Check:
    """Check of a number against a bound."""
    return Check(label, float(value), relation, float(bound), tolerance, why)


def zero_count(label: str, number: Any) -> Check:
    """Check that a count is zero."""
    return compare(label, number, "<=", 0, why="a count")


def order(
    label: str,
    x: Sequence[float] | np.ndarray,
    errors: Sequence[float] | np.ndarray,
    expected: Number,
    *,
    names: tuple[str, str] = ("ε", "error"),
) -> Check:
    """Check of an order of convergence: the slope of log `errors` against log `x`.

    The tolerance is the half-width of the 95 % confidence interval, plus twice the
    drift of the slope towards the smallest `x`, which bounds the effect of the next
    order, plus 1e-3. It is never more than 0.095.
    """
    log_x, log_y = np.log(np.asarray(x)), np.log(np.asarray(errors))
    line: Any = stats.linregress(log_x, log_y)
    half = float(stats.t.ppf(0.975, len(log_x) - 2) * line.stderr)
    smallest = np.argsort(log_x)[:2]
    last = np.diff(log_y[smallest])[0] / np.diff(log_x[smallest])[0]
    drift = abs(float(last) - float(line.slope))
    tolerance = min(ORDER_TOLERANCE, half + 2 * drift + 1e-3)
    why = (
        f"95 % interval of the slope ± {half:.2g}, drift towards the smallest "
        f"{names[0]} {drift:.2g} taken twice, at most {ORDER_TOLERANCE}"
    )
    fit = Fit(
        tuple(map(float, x)), tuple(map(float, errors)), float(line.slope), half, *names
    )
    return Check(label, float(line.slope), "=", expected, tolerance, why, fit)


def z_score(label: str, mean: float, expected: float, standard_error: float) -> Check:
    """Check of a Monte Carlo mean against its expectation, in standard errors."""
    z = abs(mean - expected) / standard_error
    why = f"{SIGMAS} standard errors of {standard_error:.2g}: exceeded 1 in 1.5e5 times"
    return Check(label, float(z), "<=", 0.0, SIGMAS, why)


def ascend(
    case: Case,
    label: str,
    log_ratio: Callable[..., Array],
    start: Callable[[PRNGKey], Any],
    *,
    args: tuple[Any, ...] = (),
    steps: int | None = None,
    bound: Number = 1.0,
) -> Check:
    """Check of the largest lhs / rhs that Adam finds from random starts.

    If the case has a witness with this label, the ratio is evaluated there instead.
    Calls with the same module-level functions share one compilation.

    Args:
        case: provides random draws and witnesses.
        label: label of the check and of its witness.
        log_ratio: maps parameters to log(lhs / rhs); non-finite values are skipped.
        start: maps a key to initial parameters, a mapping from names to arrays.
        args: further arguments of `log_ratio`, which are not varied.
        steps: number of steps, at most 1000; `None` means 150 steps, or 400 at full
            size.
        bound: claimed upper bound of the ratio.
    """
    if label in case.witnesses:
        best = case.witnesses[label]
        history = np.asarray([log_ratio_at(case, log_ratio, best, args=args)])
    else:
        count = steps or case.pick(*STEPS)
        starts = _draw_starts(case.key(label), start=start, starts=case.pick(*STARTS))
        values, best = _run_ascent(starts, _arrays(args), count, log_ratio=log_ratio)
        history = np.asarray(values)[:count]
    running = np.maximum.accumulate(history)
    evidence = Ascent(
        tuple(float(value) for value in running),
        {name: np.asarray(value).tolist() for name, value in best.items()},
    )
    why = "rounding of log(lhs / rhs): 1e-9 covers 1e6 operations of float64"
    top = float(np.exp(min(running[-1], LARGEST_LOG)))
    return Check(label, top, "<=", bound, 1e-9 * bound, why, evidence)


def log_ratio_at(
    case: Case,
    log_ratio: Callable[..., Array],
    parameters: Parameters,
    *,
    args: tuple[Any, ...] = (),
) -> float:
    """Value of log(lhs / rhs) at known parameters: a witness, or a case of equality.

    The value is read from the first step of the ascent, which is already compiled.
    """
    repeat = lambda x: np.stack([np.asarray(x, float)] * case.pick(*STARTS))
    starts = {name: repeat(x) for name, x in parameters.items()}
    values, _ = _run_ascent(starts, _arrays(args), 1, log_ratio=log_ratio)
    return float(values[0])


def _arrays(args: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(arg) for arg in args)


@partial(jax.jit, static_argnames=("start", "starts"))
def _draw_starts(
    key: PRNGKey, *, start: Callable[[PRNGKey], Any], starts: int
) -> dict[str, Array]:
    return dict(jax.vmap(start)(jax.random.split(key, starts)))


@partial(jax.jit, static_argnames="log_ratio")
def _run_ascent(
    starts: dict[str, Array],
    args: tuple[Array, ...],
    count: Array | int,
    *,
    log_ratio: Callable[..., Array],
) -> tuple[Array, dict[str, Array]]:
    """Largest log-ratio found up to each of `count` steps, and where it was found.

    The parameters of each start form one vector, which compiles faster than a tree.
    """
    x0 = jax.vmap(lambda start: ravel_pytree(start)[0])(starts)
    unravel = ravel_pytree(jax.tree.map(lambda stack: stack[0], starts))[1]
    objective = lambda vector: log_ratio(unravel(vector), *args)
    value_and_gradient = jax.vmap(jax.value_and_grad(objective))

    def step(i: Any, carry: tuple) -> tuple:
        x, state, best, where, history = carry
        value, gradient = value_and_gradient(x)
        usable = jnp.where(jnp.isfinite(value), value, -jnp.inf)
        where = jnp.where((usable > best)[:, None], x, where)
        best = jnp.maximum(best, usable)
        loss_gradient = jnp.where(jnp.isfinite(gradient), -gradient, 0)
        move, state = adam(loss_gradient, state, LEARNING_RATE)
        history = history.at[i].set(jnp.max(usable))
        return x + move, state, best, where, history

    nothing = jnp.full(len(x0), -jnp.inf)
    first = (x0, zero_moments(x0), nothing, x0, jnp.full(MOST_STEPS, -jnp.inf))
    _, _, best, where, history = jax.lax.fori_loop(0, count, step, first)
    return history, unravel(where[jnp.argmax(best)])


def ball_atoms(z: Float[Array, "n d"], radius: Float[Array, ""] | float) -> Array:
    """Maps unconstrained vectors `z` to atoms in the ball of radius `radius`."""
    size = jnp.sqrt(jnp.sum(z**2, axis=-1, keepdims=True) + 1e-30)
    return radius * jnp.tanh(size) * z / size


def ball_measure(
    z: Float[Array, "n d"], logits: Float[Array, " n"], radius: Float[Array, ""] | float
) -> Points:
    """Measure in a ball, from unconstrained parameters of atoms and weights."""
    return Points(Tokens(ball_atoms(z, radius)), jax.nn.log_softmax(logits))


def asymmetry(jacobian: Any) -> float:
    r"""Relative asymmetry of a square matrix: $\max|J - J^\top| / \max|J|$."""
    J = np.asarray(jacobian)
    return float(np.max(np.abs(J - J.T)) / np.max(np.abs(J)))


def flatten(function: Callable[[Any], Array], example: Any) -> Callable[[Array], Array]:
    """Turns a function from pytrees to arrays into one from vectors to vectors."""
    unravel = ravel_pytree(example)[1]
    return lambda vector: function(unravel(vector)).ravel()
