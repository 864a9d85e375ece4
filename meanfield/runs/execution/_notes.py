r"""Notes in a run's report: limitations of the flow, and why it failed.

With weights $e^{x\cdot Ay}$, the velocity of a Gaussian $N(\alpha, YY^\top)$ at
$x = \alpha + Yz$ is
$V\,(\alpha + \Sigma Ax)\,e^{x\cdot A^\top\alpha + \frac12|Y^\top Ax|^2}$.
Its average over $z$ is finite if and only if $|Y^\top AY| < 1$.
"""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from meanfield.attention import Attention, HardSlices
from meanfield.dynamics import Cross
from meanfield.endings import Status
from meanfield.flows.stepping import MERGE
from meanfield.linalg import psd_sqrt
from meanfield.runs.records._endings import Outcome, ending_counts
from meanfield.runs.representations import (
    Steps,
    moments_of,
    representation_of,
    representations,
)
from meanfield.runs.setup._attention import apply_scale
from meanfield.runs.setup._domain import depth_of_model
from meanfield.runs.setup._heads import parameters
from meanfield.runs.setup._parameters import Draw
from meanfield.runs.setup._setup import Member, Setup
from meanfield.scores import AbstractQuadraticScore, Dot

from ._result import Result

ENDINGS = (Status.MAX_STEPS, Status.UNCONVERGED)
NORM_THRESHOLD = 0.99  # slightly below 1, since the covariance of a grid is inexact
SELF_MATCHING_NOTE = (
    "on slices where queries and keys have the same ranking, as for A = I, each token "
    "is matched to itself, and this Gaussian is not the limit of the tokens' law"
)
PROJECTION_NOTE = (
    "this is the gradient flow among Gaussians, the Bures–Wasserstein projection of "
    "the full flow; the two agree only where ∇δE is affine"
)

# Reports mention growth of the size by this factor or more: under the default V, else.
GROWTH, LARGE_GROWTH = 1e2, 1e5
V_ADVICE = (
    "V = I is the default, under which sizes can grow like e^t: set another `--V`, or "
    "a smaller `--t`; `plot --relative` draws the shape"
)
STOP_ADVICE = "`--stop size:BOUND` stops a flow at a bound"


def reason(result: Result) -> str:
    """One line on why a run ended, with the cause if the spec reveals it.

    Examples:
        >>> from meanfield import runs, spec
        >>> result = runs.execute(
        ...     spec.parse({"measure": "gaussian", "A": 1.0, "t": 1.0})
        ... )
        >>> runs.reason(result)
        'the size grows without bound in finite time'
    """
    plain = f"{ending_counts(result.outcomes)}{result.outcome.reason}"
    if result.outcome.status is Status.MAX_STEPS:
        plain = f"{plain}; {_advice(result)}"
    if result.outcome.status not in ENDINGS or not _has_normal_tails(result):
        return plain
    norm = _norm(result)
    if norm < NORM_THRESHOLD:
        return plain
    return (
        f"{plain}; the velocity of `exp` has no finite average over a Gaussian unless "
        f"|Σ^½ A Σ^½| < 1, and here that is {norm:.3g}: lower `cov`, or raise `epsilon`"
    )


def _advice(result: Result) -> str:
    """Advice for a run that used all its steps, or whose step size became too small."""
    spec = result.spec
    if spec.precision == "single" and not _has_exhausted_steps(result):
        return "`--precision double` allows smaller steps"
    if not (_has_exhausted_steps(result) or spec.noise):
        return "raise `rtol`, or lower `t`"
    return representations[spec.measure].step_advice(Steps.from_spec(spec))


def _has_exhausted_steps(result: Result) -> bool:
    """Whether a flow with status `MAX_STEPS` may have used all steps of a segment.

    If not, the flow stopped because its step size fell below the rounding of the time.
    """
    failures = [o for o in result.outcomes if o.status is Status.MAX_STEPS]
    return any(o.n_accepted + o.n_rejected >= result.spec.max_steps for o in failures)


def _has_normal_tails(result: Result) -> bool:
    """Whether a Gaussian, perhaps on a grid, was moved by a single `exp` attention."""
    spec = result.spec
    is_single = spec.attention == "exp" and spec.heads == 1 and spec.model is None
    is_single &= spec.context is None  # with a context, averages are over its keys
    is_single &= not (spec.layers or spec.terms or spec.is_family or spec.is_masked)
    return is_single and representations[spec.measure].has_normal_tails(spec)


def _norm(result: Result) -> float:
    r"""The norm $|Y^\top AY|$ at the end of the flow."""
    spec, covariance = result.spec, moments_of(result.measures[0])[1]
    Y = np.asarray(psd_sqrt(jnp.asarray(covariance)))
    ((Q, K, _),) = parameters(spec, len(Y), Draw(spec.seed))
    Q, K = apply_scale(spec, Q, K)
    A = np.asarray(K.T @ Q) / spec.bandwidth_of_scores
    return float(np.linalg.norm(Y @ A @ Y, 2))


def flow_note(setup: Setup, member: Member) -> str:
    """The note on a flow in its report; empty if there is nothing to note."""
    spec, representation = setup.spec, setup.representation
    notes = [_shape_note(spec.init, member), _depth_note(setup), limit_note(member)]
    notes.append(merge_note(setup, member))
    if spec.flow_of is not None and representation.start_type == "moments":
        notes.append(PROJECTION_NOTE)
    return "; ".join(filter(None, notes))


def merge_note(setup: Setup, member: Member) -> str:
    """What merges of tokens may change in later times; empty without merges.

    A displacement of a token by $r$ changes its scores by at most $|A||y|r$.
    """
    attention = member.dynamics
    if setup.spec.clock is None or not isinstance(attention, Attention):
        return ""
    score = attention.score
    assert isinstance(score, AbstractQuadraticScore)
    size = float(member.measure.size)
    slope = np.linalg.norm(np.asarray(score.A), 2) + np.linalg.norm(score.B, 2)
    distance = (setup.spec.merge or MERGE) * size
    return (
        f"tokens closer than {distance:.1g} merge, which may change the logarithms of "
        f"later times by {float(slope) * size * distance:.1g}"
    )


def growth_note(
    keys: Set[str], outcomes: Sequence[Outcome], growth: Sequence[float]
) -> str:
    """A note if a measure has grown by the end of its flow; else empty.

    Growth under the default value matrix is noted earlier. A blow-up needs no note.

    Args:
        keys: the keys that the spec sets.
        outcomes: the outcome of each member.
        growth: the factor by which each member has grown.
    """
    has_default = keys.isdisjoint({"V", "model"}) and not keys & {"layers", "terms"}
    least, advice = (GROWTH, V_ADVICE) if has_default else (LARGE_GROWTH, STOP_ADVICE)
    large = [
        size
        for outcome, size in zip(outcomes, growth, strict=True)
        if outcome.status is not None and outcome.status.row.survives and size >= least
    ]
    if not large:
        return ""
    share = f"of {len(large)} of {len(growth)} members " if len(growth) > 1 else ""
    return f"the size {share}grew {max(large):.2g} times without a blow-up; {advice}"


def _shape_note(init: str, member: Member) -> str:
    """A note if a file had fewer rows than columns, as if it were transposed."""
    mu: Any = member.measure
    has_tokens = representation_of(mu).start_type == "tokens"
    if not (init.startswith("@") and has_tokens and mu.tokens.n < mu.dimension):
        return ""
    return (
        f"{mu.tokens.n} tokens in dimension {mu.dimension}: each row of "
        f"{Path(init[1:]).name} is a token; transpose it if its columns are tokens"
    )


def _depth_note(setup: Setup) -> str:
    """A note if a run goes on after the last layer of its model; else empty."""
    spec = setup.spec
    if spec.model is None or spec.forward:
        return ""
    end = spec.t if spec.times is None else spec.times[-1]
    depth = depth_of_model(spec.model, spec.model_layers)
    is_end_set = not {"t", "times"}.isdisjoint(spec.model_fields_set)
    if not is_end_set or end <= depth:
        return ""
    return (
        f"its layers act until t = {depth}; the last goes on acting until t = {end:g}"
    )


def limit_note(member: Member) -> str:
    """A note if flows of n tokens do not tend to this flow as n grows; else empty.

    This happens in more than one dimension, if sliced transport has a slice on which
    queries and keys have the same ranking. See `HardSlices.affine`.
    """
    mu = member.measure
    if representation_of(mu).start_type != "moments" or mu.dimension == 1:
        return ""
    kinds = lambda part: isinstance(part, Attention | Cross)
    parts = jax.tree.leaves(member.dynamics, is_leaf=kinds)
    attentions = [part for part in parts if isinstance(part, Attention)]
    return SELF_MATCHING_NOTE if any(map(_has_equal_ranking, attentions)) else ""


def _has_equal_ranking(attention: Attention) -> bool:
    score, coupling = attention.score, attention.coupling
    if not (isinstance(score, Dot) and isinstance(coupling, HardSlices)):
        return False
    theta, Q, K = map(np.asarray, (coupling.directions, score.Q, score.K))
    query, key = theta @ Q, theta @ K
    lengths = np.linalg.norm(query, axis=-1) * np.linalg.norm(key, axis=-1)
    rounding = 4 * Q.shape[-1] * np.finfo(Q.dtype).eps * lengths
    products = np.sum(query * key, axis=-1)
    return bool(np.any((products >= lengths - rounding) & (lengths > 0)))
