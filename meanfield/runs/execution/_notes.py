r"""What a report says of a flow beside its numbers: a caveat, and why it failed.

Under weights $e^{x\cdot Ay}$ a Gaussian $N(\alpha, YY^\top)$ has at $x = \alpha + Yz$
the velocity $V\,(\alpha + \Sigma Ax)\,e^{x\cdot A^\top\alpha + \frac12|Y^\top Ax|^2}$:
its average over $z$ is finite if and only if $|Y^\top AY| < 1$.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from meanfield.attention import Attention, HardSlices
from meanfield.dynamics import Cross
from meanfield.endings import Status
from meanfield.linalg import psd_sqrt
from meanfield.runs.records._endings import Outcome, mixed_endings
from meanfield.runs.representations import (
    Steps,
    moments_of,
    representation_of,
    representations,
)
from meanfield.runs.setup._attention import scaled
from meanfield.runs.setup._domain import depth_of_model
from meanfield.runs.setup._heads import parameters
from meanfield.runs.setup._parameters import Draw
from meanfield.runs.setup._setup import Member, Setup
from meanfield.scores import Dot

from ._result import Result

ENDINGS = (Status.MAX_STEPS, Status.UNCONVERGED)
NEAR = 0.99  # of 1: a covariance on cells is that of its law to less
PARTNERS = (
    "on slices where queries and keys point the same way, as for A = I, tokens are "
    "their own partners, and this Gaussian is not the limit of their law"
)
AMONG = (
    "this is the gradient flow among Gaussians, the Bures–Wasserstein projection of "
    "the flow, which it is itself only where ∇δE is affine"
)

LARGE_GROWTH = 1e5  # of the size, from which a report mentions it


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
    return representations[spec.measure].out_of_steps(Steps.of(spec))


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
    ((Q, K, _),) = parameters(spec, len(Y), Draw(spec.seed))
    Q, K = scaled(spec, Q, K)
    A = np.asarray(K.T @ Q) / spec.epsilon
    return float(np.linalg.norm(Y @ A @ Y, 2))


def caveat(setup: Setup, member: Member) -> str:
    """What a report says of a flow beside its numbers; empty if nothing."""
    spec, home = setup.spec, setup.representation
    notes = [_past_the_layers(setup), without_limit(member)]
    if spec.flow_of is not None and home.begins_with == "moments":
        notes.append(AMONG)
    return "; ".join(filter(None, notes))


def growth_note(outcomes: Sequence[Outcome], growth: Sequence[float]) -> str:
    """That the size of flows which reached their end has grown by orders; or nothing.

    A blow-up says so itself.
    """
    large = [
        size
        for outcome, size in zip(outcomes, growth, strict=True)
        if outcome.status is not None and outcome.status.row.survives
        if size >= LARGE_GROWTH
    ]
    if not large:
        return ""
    whose = f"of {len(large)} of {len(growth)} members " if len(growth) > 1 else ""
    return (
        f"the size {whose}grew {max(large):.2g} times without a blow-up; "
        "`--stop size:BOUND` ends a flow at a bound"
    )


def _past_the_layers(setup: Setup) -> str:
    """That time goes on after the last layer of a model."""
    spec = setup.spec
    if spec.model is None or spec.forward:
        return ""
    end = spec.t if spec.times is None else spec.times[-1]
    depth = depth_of_model(spec.model, spec.model_layers)
    named = not {"t", "times"}.isdisjoint(spec.model_fields_set)
    if not named or end <= depth:
        return ""
    return (
        f"its layers act until t = {depth}; the last goes on acting until t = {end:g}"
    )


def without_limit(member: Member) -> str:
    """Why tokens do not tend to the Gaussian of a flow; empty where they do.

    In more than one dimension, where sliced transport has a slice on which queries are
    ranked as keys are. See `HardSlices.affine`.
    """
    mu = member.measure
    if representation_of(mu).begins_with != "moments" or mu.dimension == 1:
        return ""
    kinds = lambda part: isinstance(part, Attention | Cross)
    parts = jax.tree.leaves(member.dynamics, is_leaf=kinds)
    alone = [part for part in parts if isinstance(part, Attention)]
    return PARTNERS if any(map(_ranks_alike, alone)) else ""


def _ranks_alike(attention: Attention) -> bool:
    score, coupling = attention.score, attention.coupling
    if not (isinstance(score, Dot) and isinstance(coupling, HardSlices)):
        return False
    theta, Q, K = map(np.asarray, (coupling.directions, score.Q, score.K))
    query, key = theta @ Q, theta @ K
    lengths = np.linalg.norm(query, axis=-1) * np.linalg.norm(key, axis=-1)
    rounding = 4 * Q.shape[-1] * np.finfo(Q.dtype).eps * lengths
    products = np.sum(query * key, axis=-1)
    return bool(np.any((products >= lengths - rounding) & (lengths > 0)))
