"""How statements are measured: clouds, ascents, orders, transport, checks."""

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
ORDER_TOLERANCE = 0.095  # an order is told from its neighbours, with a margin of ten
STARTS, STEPS = (12, 24), (150, 400)  # of ascents, quick and full
MOST_STEPS = 1000
RATE = 0.05  # Adam's step size
LARGEST_LOG = 700.0  # its exponential is finite
SIGMAS = 4.5  # a normal variable is further out once in 150 000 times

Parameters = Mapping[str, Any]
Number = float | int


class Slack(TypedDict):
    """The last two keywords of a check: what it allows, and why."""

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
    """The largest difference of two arrays, relative to the second's largest entry.

    Args:
        label: what is compared.
        actual: what the library says.
        expected: what an independent computation says.
        tolerance: relative.
        why: its derivation.
        scale: what the difference is divided by, where `expected` may vanish.

    Raises:
        ValueError: if the shapes differ.
    """
    left, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if left.shape != right.shape:
        raise ValueError(f"Shapes {left.shape} and {right.shape} cannot be compared.")
    size = float(np.max(np.abs(right))) if scale is None else scale
    worst = float(np.max(np.abs(left - right))) / (size or 1.0)
    return Check(label, worst, "<=", 0.0, tolerance, why)


def close(label: str, actual: object, expected: object) -> Check:
    """Two arrays that differ by the rounding of sums and exponentials."""
    return gap(label, actual, expected, tolerance=ROUNDING, why=EXACT)


def bounded(
    label: str,
    observed: Any,
    relation: Relation,
    bound: Number,
    *,
    tolerance: Number = 0.0,
    why: str = "a strict margin is claimed: nothing is added",
) -> Check:
    """A number against a bound."""
    return Check(label, float(observed), relation, float(bound), tolerance, why)


def counted(label: str, number: Any) -> Check:
    """How many there are of what should not be."""
    return bounded(label, number, "<=", 0, why="a count")


def order(
    label: str,
    x: Sequence[float] | np.ndarray,
    errors: Sequence[float] | np.ndarray,
    expected: Number,
    *,
    names: tuple[str, str] = ("ε", "error"),
) -> Check:
    """The slope of log error on log `x`, against the order expected.

    The tolerance is the half-width of the 95 % interval plus twice the drift of the
    slope towards the smallest `x`, which bounds what a next-order term leaves, and
    never more than 0.095.
    """
    log_x, log_y = np.log(np.asarray(x)), np.log(np.asarray(errors))
    line: Any = stats.linregress(log_x, log_y)
    half = float(stats.t.ppf(0.975, len(log_x) - 2) * line.stderr)
    near = np.argsort(log_x)[:2]
    last = np.diff(log_y[near])[0] / np.diff(log_x[near])[0]
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
    """A Monte Carlo mean against its expectation, in standard errors."""
    z = abs(mean - expected) / standard_error
    why = (
        f"{SIGMAS} standard errors of {standard_error:.2g}: passed by chance 1 in 1.5e5"
    )
    return Check(label, float(z), "<=", 0.0, SIGMAS, why)


def ascend(
    case: Case,
    label: str,
    log_ratio: Callable[..., Array],
    start: Callable[[PRNGKey], Any],
    *,
    given: tuple[Any, ...] = (),
    steps: int | None = None,
    bound: Number = 1.0,
) -> Check:
    """The largest lhs / rhs that Adam finds from random starts, against 1.

    With a witness of this label in the case, the ratio there instead. One compilation
    serves every call with the same functions, if they belong to a module.

    Args:
        case: where draws and witnesses come from.
        label: of the check, and of its witness.
        log_ratio: log(lhs / rhs) of parameters; `-inf` or NaN is no candidate.
        start: parameters from a key, a mapping from names to arrays.
        given: numbers that `log_ratio` takes besides, and that are not varied.
        steps: of each, at most 1000; 150, or 400 at full size, if `None`.
        bound: what the ratio is claimed not to pass.
    """
    if label in case.witnesses:
        best = case.witnesses[label]
        history = np.asarray([log_ratio_at(case, log_ratio, best, given=given)])
    else:
        count = steps or case.pick(*STEPS)
        at = _started(case.key(label), start=start, starts=case.pick(*STARTS))
        each, best = _climbed(at, _arrays(given), count, log_ratio=log_ratio)
        history = np.asarray(each)[:count]
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
    given: tuple[Any, ...] = (),
) -> float:
    """log(lhs / rhs) at known parameters: a witness, or a case of equality.

    It is read off the first step of the compiled ascent, to compile nothing else.
    """
    many = lambda x: np.stack([np.asarray(x, float)] * case.pick(*STARTS))
    tiled = {name: many(x) for name, x in parameters.items()}
    each, _ = _climbed(tiled, _arrays(given), 1, log_ratio=log_ratio)
    return float(each[0])


def _arrays(given: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(each) for each in given)


@partial(jax.jit, static_argnames=("start", "starts"))
def _started(
    key: PRNGKey, *, start: Callable[[PRNGKey], Any], starts: int
) -> dict[str, Array]:
    return dict(jax.vmap(start)(jax.random.split(key, starts)))


@partial(jax.jit, static_argnames="log_ratio")
def _climbed(
    starts: dict[str, Array],
    given: tuple[Array, ...],
    count: Array | int,
    *,
    log_ratio: Callable[..., Array],
) -> tuple[Array, dict[str, Array]]:
    """The best log-ratio of each of `count` steps, and where the best of all was found.

    The parameters are one vector for each start, which compiles faster than a tree.
    """
    at = jax.vmap(lambda start: ravel_pytree(start)[0])(starts)
    unravel = ravel_pytree(jax.tree.map(lambda stack: stack[0], starts))[1]
    of_vector = lambda vector: log_ratio(unravel(vector), *given)
    value_and_slope = jax.vmap(jax.value_and_grad(of_vector))

    def step(i: Any, carry: tuple) -> tuple:
        here, state, best, where, history = carry
        value, slope = value_and_slope(here)
        usable = jnp.where(jnp.isfinite(value), value, -jnp.inf)
        where = jnp.where((usable > best)[:, None], here, where)
        best = jnp.maximum(best, usable)
        loss_slope = jnp.where(jnp.isfinite(slope), -slope, 0)
        move, state = adam(loss_slope, state, RATE)
        history = history.at[i].set(jnp.max(usable))
        return here + move, state, best, where, history

    nothing = jnp.full(len(at), -jnp.inf)
    first = (at, zero_moments(at), nothing, at, jnp.full(MOST_STEPS, -jnp.inf))
    _, _, best, where, history = jax.lax.fori_loop(0, count, step, first)
    return history, unravel(where[jnp.argmax(best)])


def in_ball(z: Float[Array, "n d"], radius: Float[Array, ""] | float) -> Array:
    """Atoms strictly inside the ball of that radius, whatever `z`."""
    size = jnp.sqrt(jnp.sum(z**2, axis=-1, keepdims=True) + 1e-30)
    return radius * jnp.tanh(size) * z / size


def attacked(
    z: Float[Array, "n d"], logits: Float[Array, " n"], radius: Float[Array, ""] | float
) -> Points:
    """A measure of free atoms in a ball and free weights, for ascents."""
    return Points(Tokens(in_ball(z, radius)), jax.nn.log_softmax(logits))


def asymmetry(jacobian: Any) -> float:
    r"""$\max|J - J^\top| / \max|J|$ of a square matrix."""
    J = np.asarray(jacobian)
    return float(np.max(np.abs(J - J.T)) / np.max(np.abs(J)))


def flat(function: Callable[[Any], Array], like: Any) -> Callable[[Array], Array]:
    """The function of a pytree as one of a vector."""
    unravel = ravel_pytree(like)[1]
    return lambda vector: function(unravel(vector)).ravel()
