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
from meanfield.theorems import Case, Check, statement

TIME = 0.5


@statement(
    "mine:covariance",  # PAPER:NAME, as `meanfield verify` is given it
    source="a note of mine, eq. (1)",
    claim=r"For a mean of 0, $\Sigma' = V\Sigma A\Sigma + \Sigma A^\top\Sigma V^\top$.",
    hypotheses="Softmax attention, which keeps Gaussians Gaussian.",
)
def covariance(case: Case, *, steepness: float = 1.0) -> tuple[Check, ...]:
    """The covariance at the end of a flow, against SciPy's solution of the equation.

    `meanfield verify explain` prints these lines. Keywords with a default are what a
    control may change.
    """
    # A draw has a name, so that one more draw never shifts another.
    rng = case.rng("matrices")
    d = case.pick(2, 5)  # of `--size quick`, and of `--size full`
    A, V, Y = rng.normal(size=(3, d, d)) / (2 * np.sqrt(d))
    begin = Y @ Y.T

    # The library: scores are Qx · Ky, so that Q = A and K = I make them y · Ax.
    attention = attentions["softmax"](jnp.asarray(A), jnp.eye(d), jnp.asarray(V))
    start = Gaussian.from_moments(np.zeros(d), begin)
    run = flow(attention, start, jnp.array([0.0, TIME])).raise_for_status()

    # Something independent of it: a closed form, quadrature, SciPy, brute force.
    def rate(_: float, flat: np.ndarray) -> np.ndarray:
        Sigma = flat.reshape(d, d)
        half = steepness * V @ Sigma @ A @ Sigma  # yours
        return (half + half.T).ravel()

    solved = solve_ivp(rate, (0, TIME), begin.ravel(), rtol=1e-11, atol=1e-13)
    expected = solved.y[:, -1].reshape(d, d)

    # A check is a label, a number, how it stands to a bound, the bound, the tolerance,
    # and where the tolerance comes from.
    gap = np.linalg.norm(np.asarray(run.final.covariance) - expected)
    relative = float(gap / np.linalg.norm(expected))
    why = "steps of a relative error of 4e-10, some fifty of them"
    return (Check("relative gap of the covariances", relative, "<=", 0.0, 1e-7, why),)


covariance.refuted_if("with scores twice as steep", steepness=2.0)
