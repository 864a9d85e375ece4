"""What is true of a flow and not obvious, where a run of it should say so."""

from collections.abc import Sequence

import jax
import numpy as np

from meanfield.attention import Attention, HardSlices
from meanfield.dynamics import Cross
from meanfield.runs.building._build import Member
from meanfield.runs.building._times import depth_of_model
from meanfield.runs.records._endings import Outcome
from meanfield.runs.representations import representation_of, representations
from meanfield.scores import Dot
from meanfield.spec import RunSpec

PARTNERS = (
    "on slices where queries and keys point the same way, as for A = I, tokens are "
    "their own partners, and this Gaussian is not the limit of their law"
)
AMONG = (
    "this is the gradient flow among Gaussians, the Bures–Wasserstein projection of "
    "the flow, which it is itself only where ∇δE is affine"
)

LARGE_GROWTH = 1e5  # of the size, from which a report mentions it


def caveat(spec: RunSpec, member: Member) -> str:
    """What a report says of a flow beside its numbers; empty if nothing."""
    parts = _past_the_layers(spec), without_limit(member), _among_gaussians(spec)
    return "; ".join(filter(None, parts))


def _among_gaussians(spec: RunSpec) -> str:
    """That a Gaussian descends as Gaussians can, not as its law would."""
    begins_with = representations[spec.measure].begins_with
    return AMONG if spec.flow_of is not None and begins_with == "moments" else ""


def grown(outcomes: Sequence[Outcome], growth: Sequence[float]) -> str:
    """That the size of flows which reached their end has grown by orders; or nothing.

    A blow-up says so itself.
    """
    ends = zip(outcomes, growth, strict=True)
    large = [g for o, g in ends if _survives(o) and g >= LARGE_GROWTH]
    if not large:
        return ""
    whose = f"of {len(large)} of {len(growth)} members " if len(growth) > 1 else ""
    return (
        f"the size {whose}grew {max(large):.2g} times without a blow-up; "
        "`--stop size:BOUND` ends a flow at a bound"
    )


def _survives(outcome: Outcome) -> bool:
    return outcome.status is not None and outcome.status.row.survives


def _past_the_layers(spec: RunSpec) -> str:
    """That time goes on after the last layer of a model."""
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
