"""Without scores, softmax attention moves the mean, and nothing else."""

import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from meanfield import Points, attentions, flow
from meanfield.theorems import Case, Identity, statement

TIME = 0.7


def _against_exponential(case: Case, strength: float) -> Identity:
    r"""Tokens against $x_i + (e^{tV} - I)\bar x$; a strength of zero has no scores."""
    rng = case.rng("tokens")
    x, V = rng.normal(size=(case.pick(9, 90), 2)), rng.normal(size=(2, 2))
    eye = jnp.eye(2)
    attention = attentions["softmax"](strength * eye, eye, V)
    start, times = Points.uniform(jnp.asarray(x)), jnp.array([0.0, TIME])
    return Identity(
        left=lambda _: flow(attention, start, times).final.tokens.x,
        right=lambda x: x + (expm(TIME * V) - np.eye(2)) @ x.mean(axis=0),
        cases={"tokens at the end": x},
        tolerance=1e-7,
        why="steps of a relative error of 4e-10, some fifty of them",
    )


@statement(
    "mine:uniform-scores",
    source="docs/extending.md",
    claim=r"If $A = 0$, then $x_i(t) = x_i(0) + (e^{tV} - I)\,\bar x(0)$.",
)
def uniform_scores(case: Case) -> Identity:
    """A flow of random tokens against the exponential of V, by SciPy."""
    return _against_exponential(case, 0.0)


@uniform_scores.register_control(
    "with A = I, under which tokens look at their neighbours"
)
def _(case: Case) -> Identity:
    return _against_exponential(case, 1.0)
