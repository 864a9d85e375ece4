"""Sliced transport: how many operations it takes."""

import functools
from collections.abc import Callable
from typing import Any

from meanfield.attention import plans
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import Points
from meanfield.theorems._arrays import JaxArray, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded
from meanfield.theorems.library.slices import between, sliced

FEW, MANY = 50, 1000
WHY = "terms of lower order, which grow more slowly; the next order is a ten"
GROWTH = Slack(tolerance=0.1, why=WHY)
Answer = Callable[[AbstractDynamics, Points], JaxArray]
Apply = Callable[[JaxArray, JaxArray, JaxArray], JaxArray]


def _velocities(attention: AbstractDynamics, mu: Points) -> JaxArray:
    return attention.field(0.0, mu)(mu.tokens)


def _in_turn(A: JaxArray, B: JaxArray, y: JaxArray) -> JaxArray:
    return A.T @ (B @ y)


@statement(
    "shahbazi2025:sec-3.3-complexity",
    source="§3.3",
    claim=r"Soft sorting takes $O(LN^2)$ operations, hard sorting $O(LN\log N)$.",
    hypotheses=r"$A^\top(BV)$ is never $(A^\top B)V$, which takes $N^3$; for hard "
    r"sorting $D_l$ is summed along the permutation, and no table of $N^2$ costs made",
    control=(
        r"the matrix of weights is made, and $A^\top B$",
        {
            "answer": lambda attention, mu: plans(attention, 0.0, mu),
            "apply": lambda A, B, y: (A.T @ B) @ y,
        },
    ),
)
def operations(
    case: Case, *, answer: Answer = _velocities, apply: Apply = _in_turn
) -> Checks:
    r"""XLA's own count for programs of 50 and of 1000 tokens.

    The library's velocities along a slice with $\tau = 1$, whose cost it needs,
    compiled; and soft sorts with their values, in JAX.
    """
    del case
    hard = [_of_hard_sorts(answer, n) / (n * np.log2(n)) for n in (FEW, MANY)]
    soft = [_of_soft_sorts(apply, n) / n**2 for n in (FEW, MANY)]
    yield bounded("growth over N log N, hard", hard[1] / hard[0], "<=", 1, **GROWTH)
    yield bounded("growth over N², soft", soft[1] / soft[0], "<=", 1, **GROWTH)


def _lowered(program: Callable[[JaxArray], JaxArray], n: int) -> Any:
    """The program of `n` tokens, each a query and a key in the plane, for XLA."""
    return jax.jit(program).lower(jax.ShapeDtypeStruct((n, 4), float))


@functools.cache  # no seed changes it, and compilers take their time
def _of_hard_sorts(answer: Answer, n: int) -> float:
    """Operations that XLA counts once compiled.

    Before that it counts cumulative sums as quadratic.
    """
    attention = sliced(between(2), np.eye(2)[:1], jnp.ones(()))
    program = _lowered(lambda z: answer(attention, Points.uniform(z)), n)
    return float(program.compile().cost_analysis()["flops"])


def _of_soft_sorts(apply: Apply, n: int) -> float:
    """Operations of sorting the first and third coordinates and moving tokens."""
    sort = lambda v: jax.nn.softmax(-jnp.abs(jnp.sort(v)[:, None] - v[None, :]), axis=1)
    program = _lowered(lambda z: apply(sort(z[:, 0]), sort(z[:, 2]), z), n)
    return float(program.cost_analysis()["flops"])
