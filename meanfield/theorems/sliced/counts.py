"""Sliced transport: number of operations."""

import functools
from collections.abc import Callable
from typing import Any

from meanfield.attention import plans
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import Points
from meanfield.theorems._arrays import JaxArray, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare
from meanfield.theorems.library.slices import pair_parameters, sliced_attention

N_SMALL, N_LARGE = 50, 1000
WHY = "terms of lower order, which grow more slowly; a higher order would give ten"
GROWTH = Slack(tolerance=0.1, why=WHY)
Answer = Callable[[AbstractDynamics, Points], JaxArray]
Apply = Callable[[JaxArray, JaxArray, JaxArray], JaxArray]


def _velocities(attention: AbstractDynamics, mu: Points) -> JaxArray:
    return attention.field(0.0, mu)(mu.tokens)


def _apply_factors(A: JaxArray, B: JaxArray, y: JaxArray) -> JaxArray:
    return A.T @ (B @ y)


@statement(
    "shahbazi2025:sec-3.3-complexity",
    source="§3.3",
    claim=r"Soft sorting takes $O(LN^2)$ operations, hard sorting $O(LN\log N)$.",
    hypotheses=r"$A^\top(BV)$ is never $(A^\top B)V$, which takes $N^3$; for hard "
    r"sorting $D_l$ is summed along the permutation, and no table of $N^2$ costs made",
    control=(
        r"the matrix of weights and $A^\top B$ are formed",
        {
            "answer": lambda attention, mu: plans(attention, 0.0, mu),
            "apply": lambda A, B, y: (A.T @ B) @ y,
        },
    ),
)
def operations(
    _: Case, *, answer: Answer = _velocities, apply: Apply = _apply_factors
) -> Checks:
    r"""Compares XLA's counts of operations for 50 and for 1000 tokens.

    Two programs are counted. The first is compiled and computes the library's
    velocities along one slice; with $\tau = 1$ it also needs the cost of the slice. The
    second applies soft sorts to values, in JAX.
    """
    hard = [_hard_sort_flops(answer, n) / (n * np.log2(n)) for n in (N_SMALL, N_LARGE)]
    soft = [_soft_sort_flops(apply, n) / n**2 for n in (N_SMALL, N_LARGE)]
    yield compare("growth over N log N, hard", hard[1] / hard[0], "<=", 1, **GROWTH)
    yield compare("growth over N², soft", soft[1] / soft[0], "<=", 1, **GROWTH)


def _lower(program: Callable[[JaxArray], JaxArray], n: int) -> Any:
    """Lowers the program for `n` tokens, each a query and a key in the plane."""
    return jax.jit(program).lower(jax.ShapeDtypeStruct((n, 4), float))


@functools.cache  # compilation is slow, and the count does not depend on the seed
def _hard_sort_flops(answer: Answer, n: int) -> float:
    """Number of operations that XLA counts after compilation.

    Before compilation, XLA would count cumulative sums as quadratic.
    """
    attention = sliced_attention(pair_parameters(2), np.eye(2)[:1], jnp.ones(()))
    program = _lower(lambda z: answer(attention, Points.uniform(z)), n)
    return float(program.compile().cost_analysis()["flops"])


def _soft_sort_flops(apply: Apply, n: int) -> float:
    """Number of operations of two soft sorts that are applied to tokens.

    The sorts are of the first and of the third coordinate.
    """
    sort = lambda v: jax.nn.softmax(-jnp.abs(jnp.sort(v)[:, None] - v[None, :]), axis=1)
    program = _lower(lambda z: apply(sort(z[:, 0]), sort(z[:, 2]), z), n)
    return float(program.cost_analysis()["flops"])
