r"""Why a flow failed, where its spec tells: a clause for people.

Under weights $e^{x\cdot Ay}$ a Gaussian $N(\alpha, YY^\top)$ has at $x = \alpha + Yz$
the velocity $V\,(\alpha + \Sigma Ax)\,e^{x\cdot A^\top\alpha + \frac12|Y^\top Ax|^2}$:
its average over $z$ is finite if and only if $|Y^\top AY| < 1$.
"""

import jax.numpy as jnp
import numpy as np

from meanfield.endings import Status
from meanfield.linalg import psd_sqrt
from meanfield.runs.building._attention import scaled
from meanfield.runs.building._heads import parameters
from meanfield.runs.building._parameters import Draw
from meanfield.runs.records._endings import mixed_endings
from meanfield.runs.representations import moments_of, representations
from meanfield.spec import RunSpec

from ._execute import Result

ENDINGS = (Status.MAX_STEPS, Status.UNCONVERGED)
NEAR = 0.99  # of 1: a covariance on cells is that of its law to less


def reason(result: Result) -> str:
    """Why a run ended, in a line, with the cause where the spec tells it.

    Examples:
        >>> from meanfield import runs, spec
        >>> result = runs.execute(
        ...     spec.parse({"measure": "gaussian", "A": 1.0, "t": 1.0})
        ... )
        >>> runs.reason(result)
        'the size grows without bound in finite time'
    """
    plain = f"{mixed_endings(result.outcomes)}{result.outcome.reason}"
    if result.outcome.status is Status.MAX_STEPS:
        plain = f"{plain}; {_advice(result)}"
    if result.outcome.status not in ENDINGS or not _has_normal_tails(result):
        return plain
    norm = _norm(result)
    if norm < NEAR:
        return plain
    return (
        f"{plain}; a velocity under `exp` has no finite average over a Gaussian unless "
        f"|Σ^½ A Σ^½| < 1, and here that is {norm:.3g}: lower `cov`, or raise `epsilon`"
    )


def _advice(result: Result) -> str:
    """What may help where the steps of a run were spent, or shrank."""
    spec = result.spec
    if spec.precision == "single" and not _spent(result):
        return "`--precision double` resolves shorter ones"
    if not (_spent(result) or spec.noise):
        return "raise `rtol`, or lower `t`"
    return representations[spec.measure].out_of_steps(spec)


def _spent(result: Result) -> bool:
    """Whether some flow that ran out of steps may have used all of a segment's."""
    stuck = [o for o in result.outcomes if o.status is Status.MAX_STEPS]
    return any(o.accepted + o.rejected >= result.spec.max_steps for o in stuck)


def _has_normal_tails(result: Result) -> bool:
    """Whether a Gaussian moved under one attention `exp`, itself or as a density."""
    spec = result.spec
    is_single = spec.attention == "exp" and spec.heads == 1 and spec.model is None
    is_single &= spec.context is None  # averages are over what is looked at
    is_single &= not (spec.layers or spec.terms or spec.is_family or spec.is_masked)
    return is_single and representations[spec.measure].has_normal_tails(spec)


def _norm(result: Result) -> float:
    r"""$|Y^\top AY|$ where the flow ended."""
    spec, covariance = result.spec, moments_of(result.measures[0])[1]
    Y = np.asarray(psd_sqrt(jnp.asarray(covariance)))
    return float(np.linalg.norm(Y @ _score_matrix(spec, len(Y)) @ Y, 2))


def _score_matrix(spec: RunSpec, d: int) -> np.ndarray:
    ((Q, K, _),) = parameters(spec, d, Draw(spec.seed))
    Q, K = scaled(spec, Q, K)
    return np.asarray(K.T @ Q) / spec.epsilon
