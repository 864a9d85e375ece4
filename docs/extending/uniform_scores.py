"""Without scores, softmax attention moves the mean, and nothing else."""

import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from meanfield import Points, attentions, flow
from meanfield.theorems import Case, Check, statement

TIME = 0.7


def _moved(case: Case, strength: float) -> tuple[Check, ...]:
    r"""Tokens against $x_i + (e^{tV} - I)\bar x$; a strength of zero has no scores."""
    rng = case.rng("tokens")
    x, V = rng.normal(size=(case.pick(9, 90), 2)), rng.normal(size=(2, 2))
    eye = jnp.eye(2)
    moves = attentions["softmax"](strength * eye, eye, V)
    run = flow(moves, Points.uniform(jnp.asarray(x)), jnp.array([0.0, TIME]))
    expected = x + (expm(TIME * V) - np.eye(2)) @ x.mean(axis=0)
    gap = np.max(np.abs(np.asarray(run.final.tokens.x) - expected))
    why = "steps of a relative error of 4e-10, some fifty of them"
    return (Check("largest distance of a token", float(gap), "<=", 0.0, 1e-7, why),)


@statement(
    "mine:uniform-scores",
    source="docs/extending.md",
    claim=r"If $A = 0$, then $x_i(t) = x_i(0) + (e^{tV} - I)\,\bar x(0)$.",
)
def uniform_scores(case: Case) -> tuple[Check, ...]:
    """A flow of random tokens against the exponential of V, by SciPy."""
    return _moved(case, 0.0)


@uniform_scores.refuted_by("with A = I, under which tokens look at their neighbours")
def _(case: Case) -> tuple[Check, ...]:
    return _moved(case, 1.0)
