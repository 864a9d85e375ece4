"""Sinkhorn's potentials of two clouds."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._typing import Numbers
from meanfield.measures import Points
from meanfield.measures.reductions import AbstractReduction, Blocked
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._functions import logs_of, vectors
from ._transport import Plan, in_cells, unlaid


class Potentials(NamedTuple):
    r"""Potentials that make a plan of a kernel, and how well.

    Attributes:
        of_queries: $f$, (m,).
        of_keys: $g$, (n,); up to a constant that may pass from one to the other.
        residual: the largest $|\log|$ of a marginal over its weight.
        tolerance: what it was asked to be.

    Examples:
        >>> from meanfield import sums
        >>> sums.Potentials._fields
        ('of_queries', 'of_keys', 'residual', 'tolerance')
    """

    of_queries: Float[Array, " m"]
    of_keys: Float[Array, " n"]
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
    r"""The $f$ and $g$ for which $a_i b_j e^{q_i\cdot k_j + f_i + g_j}$ is a plan.

    Its rows sum to the weights $a$, its columns to $b$. For entropic transport with the
    cost $|x - y|^2/2$ and the bandwidth $\epsilon$, queries are $x/\epsilon$ and keys
    $y$: squares go into the potentials. Derivatives, in both modes, go through the
    equation and not through the iteration.

    Args:
        queries: $q$, (m, k).
        keys: $k$, (n, k).
        log_weights: $\log a$, (m,), and $\log b$, (n,), of one sum each; uniform
            weights where they are left out.
        tolerance: of the residual; by default that of the cells, and where sums are
            exact the power 2/3 of the machine's epsilon.
        max_iterations: passes over rows and columns, at most.
        reduction: how sums are executed; `Cells` are laid out by the potentials of some
            of the vectors, where numbers are known; where none hold the sums these are
            exact, with a warning if they take more than a minute.

    Returns:
        The potentials, whose residual says whether they converged: it is at most their
        tolerance if they did.

    Raises:
        InvalidInputError: if shapes do not fit.

    Examples:
        >>> from meanfield import sums
        >>> q, k = jnp.array([[0.0], [2.0]]), jnp.array([[0.0], [1.0]])
        >>> f, g, residual, tolerance = sums.sinkhorn(q, k)
        >>> plan = jnp.exp(q @ k.T + f[:, None] + g[None, :]) / 4
        >>> print(plan.sum(axis=0), plan.sum(axis=1), residual <= tolerance)
        [0.5 0.5] [0.5 0.5] True
    """
    q, k = vectors("queries", queries), vectors("keys", keys)
    a = _weighted(q, log_weights[0], reduction)
    b = _weighted(k, log_weights[1], reduction)
    # Products of means are left to the potentials: what is iterated is centred.
    q_mean, k_mean = a.mean, b.mean
    a, b = a.at(q - q_mean[None]), b.at(k - k_mean[None])
    score = Dot(jnp.eye(q.shape[1]), jnp.eye(q.shape[1]))
    plan, found = Plan(score, a, b), None
    if plan.waits:
        found = in_cells(plan, tolerance, max_iterations)
    if found is None:
        found = unlaid(plan).solved(tolerance, max_iterations)
    return Potentials(
        found.f - (q - q_mean[None]) @ k_mean,
        found.g - k @ q_mean,
        found.convergence.residual,
        found.convergence.tolerance,
    )


def _weighted(
    x: Float[Array, "n k"], log_weights: Numbers | None, reduction: AbstractReduction
) -> Points:
    logs = logs_of(log_weights, x)
    uniform = jnp.full(len(x), -jnp.log(len(x)), x.dtype)
    return Points(Tokens(x), uniform if log_weights is None else logs, reduction)
