"""Sinkhorn potentials between two clouds of vectors."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._typing import Numbers
from meanfield.measures import Points
from meanfield.measures.reductions import AbstractReduction, Blocked
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._functions import logs_of, vectors
from ._transport import TransportProblem, fall_back_to_exact, solve_in_cells


class Potentials(NamedTuple):
    r"""Sinkhorn potentials with their convergence.

    Attributes:
        query_potential: $f$, (m,).
        key_potential: $g$, (n,); for any constant $c$, $(f + c, g - c)$ is equivalent.
        residual: the largest $|\log(m/w)|$ of a marginal $m$ and its weight $w$.
        tolerance: the value below which the residual should be.

    Examples:
        >>> from meanfield import sums
        >>> sums.Potentials._fields
        ('query_potential', 'key_potential', 'residual', 'tolerance')
    """

    query_potential: Float[Array, " m"]
    key_potential: Float[Array, " n"]
    residual: Float[Array, ""]
    tolerance: Float[Array, ""]


def sinkhorn(
    queries: Numbers,
    keys: Numbers,
    log_weights: tuple[Numbers | None, Numbers | None] = (None, None),
    *,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    reduction: AbstractReduction = Blocked(),
) -> Potentials:
    r"""Potentials $f$, $g$ for which $a_i b_j e^{q_i\cdot k_j + f_i + g_j}$ is a plan.

    The rows of the plan sum to the weights $a$, and its columns to the weights $b$. For
    entropic transport with the cost $|x - y|^2/2$ and the bandwidth $\epsilon$, use
    queries $x/\epsilon$ and keys $y$; squares in the cost only change the potentials.
    Derivatives, in both modes, come from the equation for the potentials, not from the
    iteration.

    Args:
        queries: $q$, (m, k).
        keys: $k$, (n, k).
        log_weights: $\log a$, (m,), and $\log b$, (n,), where the weights
            $a$ and $b$ have the same sum; uniform weights by default.
        tolerance: tolerance of the residual; by default the tolerance of the cells, or,
            for exact sums, at least the machine epsilon to the power of 2/3.
        max_iterations: largest number of passes over rows and columns.
        reduction: how sums are computed. For concrete values, the layout of `Cells` is
            chosen from the potentials of a sample of the vectors. If no cells meet the
            tolerance, sums are exact, and if these take more than a minute, a warning
            is issued.

    Returns:
        The potentials. They have converged if `residual` is at most `tolerance`.

    Raises:
        InvalidInputError: if shapes do not match.

    Examples:
        >>> from meanfield import sums
        >>> q, k = jnp.array([[0.0], [2.0]]), jnp.array([[0.0], [1.0]])
        >>> f, g, residual, tolerance = sums.sinkhorn(q, k)
        >>> plan = jnp.exp(q @ k.T + f[:, None] + g[None, :]) / 4
        >>> print(plan.sum(axis=0), plan.sum(axis=1), residual <= tolerance)
        [0.5 0.5] [0.5 0.5] True
    """
    q, k = vectors("queries", queries), vectors("keys", keys)
    a = _as_points(q, log_weights[0], reduction)
    b = _as_points(k, log_weights[1], reduction)
    # The iteration uses centred vectors; products with means go into the potentials.
    q_mean, k_mean = a.mean, b.mean
    a, b = (
        a.replace_coordinates(q - q_mean[None]),
        b.replace_coordinates(k - k_mean[None]),
    )
    score = Dot(jnp.eye(q.shape[1]), jnp.eye(q.shape[1]))
    problem, solution = TransportProblem(score, a, b), None
    if problem.needs_layout:
        solution = solve_in_cells(problem, tolerance, max_iterations)
    if solution is None:
        solution = fall_back_to_exact(problem).solve(tolerance, max_iterations)
    return Potentials(
        solution.f - (q - q_mean[None]) @ k_mean,
        solution.g - k @ q_mean,
        solution.convergence.residual,
        solution.convergence.tolerance,
    )


def _as_points(
    x: Float[Array, "n k"], log_weights: Numbers | None, reduction: AbstractReduction
) -> Points:
    logs = logs_of(log_weights, x)
    uniform = jnp.full(len(x), -jnp.log(len(x)), x.dtype)
    return Points(Tokens(x), uniform if log_weights is None else logs, reduction)
