"""A statement to begin from: how a centred Gaussian moves under softmax attention.

A statement is a claim, a measurement of it against something independent, and a
control: the same measurement with one thing broken, which must fail by ten tolerances.
Try it as it stands, then put your claim in the place of each line marked `# yours`:

    meanfield verify mine:covariance --plugin THIS_FILE.py
    meanfield verify explain mine:covariance --plugin THIS_FILE.py
"""

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

from meanfield import Gaussian, attentions, flow
from meanfield.theorems import Case, Identity, statement

TIME = 0.5


def by_library(draw: np.ndarray) -> np.ndarray:
    """The covariance at the end of a flow; scores are Qx · Ky, here y · Ax."""
    A, V, Y = draw
    d = len(A)
    attention = attentions["softmax"](jnp.asarray(A), jnp.eye(d), jnp.asarray(V))
    start = Gaussian.from_moments(np.zeros(d), Y @ Y.T)
    run = flow(attention, start, jnp.array([0.0, TIME])).raise_for_status()
    return np.asarray(run.final.covariance)


def by_scipy(draw: np.ndarray, steepness: float) -> np.ndarray:
    """Something independent: a closed form, quadrature, brute force; here SciPy."""
    A, V, Y = draw

    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        Sigma = flat.reshape(A.shape)
        half = steepness * V @ Sigma @ A @ Sigma  # yours
        return (half + half.T).ravel()

    start = (Y @ Y.T).ravel()
    solution = solve_ivp(rate, (0, TIME), start, rtol=1e-11, atol=1e-13)
    return solution.y[:, -1].reshape(A.shape)


@statement(
    "mine:covariance",  # PAPER:NAME, as `meanfield verify` is given it
    source="a note of mine, eq. (1)",
    claim=r"For a mean of 0, $\Sigma' = V\Sigma A\Sigma + \Sigma A^\top\Sigma V^\top$.",
    hypotheses="Softmax attention, which keeps Gaussians Gaussian.",
)
def covariance(case: Case, *, steepness: float = 1.0) -> Identity:
    """The covariance at the end of a flow, against SciPy's solution of the equation.

    `meanfield verify explain` prints these lines. Keywords with a default are what a
    control may change.
    """
    # A draw has a name, so that one more draw never shifts another.
    rng = case.rng("matrices")
    d = case.pick(2, 5)  # of `--size quick`, and of `--size full`
    draw = rng.normal(size=(3, d, d)) / (2 * np.sqrt(d))
    # Both sides of the equation, the cases by the labels of their checks, the largest
    # difference allowed, relative to the right side, and where that comes from.
    return Identity(
        left=by_library,
        right=lambda matrices: by_scipy(matrices, steepness),
        cases={"covariance": draw},
        tolerance=1e-7,
        why="steps of a relative error of 4e-10, some fifty of them",
    )


covariance.set_control("with scores twice as steep", steepness=2.0)
