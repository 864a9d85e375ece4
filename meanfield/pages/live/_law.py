"""The flow that a live page integrates: a dynamics and an initial measure, as data."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield._array import member_of
from meanfield.attention import Attention, Sinkhorn, attentions
from meanfield.dynamics import AbstractDynamics, Heads, Prefix, causal
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.scores import AbstractScore, Dot, Masked, SquaredDistance
from meanfield.spaces import AbstractSpace, Euclidean, Sphere

# A page has at most `TOKENS` tokens. With more tokens, a browser needs about a second
# for each evaluation of the velocity.
TOKENS = 2_000
_POINT_ATTENTIONS = ("softmax", "l2", "sinkhorn", "linear", "exp", "sigmoid")
_DRAWN = (2, 3)  # dimensions of the circle and the sphere that a page draws
_GAUSSIAN_ATTENTIONS = ("softmax", "l2", "sinkhorn", "linear")
_NORMALISED_ATTENTIONS = ("softmax", "l2")  # their rows are renormalised after masking
_ATTENTIONS = {"points": _POINT_ATTENTIONS, "gaussian": _GAUSSIAN_ATTENTIONS}
_ADVICE = "Use `meanfield simulate` for such a flow"
# Maps each unsupported class of dynamics to the option that leads to it.
_FEATURES = {
    "Cross": "a `context`",
    "Layers": "layers, from a model or `[[layers]]`",
    "Projected": "`projected`",
    "Sum": "further terms, such as `drift` or `[[terms]]`",
}

Rows = list[list[float]]


@dataclass(frozen=True)
class Head:
    r"""One head, with scores $Qx\cdot Ky/\epsilon$ or $-|Qx-Ky|^2/\epsilon$.

    Attributes:
        Q: the query matrix. For dot products it is the matrix $K^\top Q$.
        K: the key matrix. For dot products it is the identity.
        V: the value matrix, without the factor $1/\epsilon$ of Sinkhorn attention.
    """

    Q: Rows
    K: Rows
    V: Rows


@dataclass(frozen=True)
class Law:
    """A flow as data for a page, in values that JSON can represent.

    Attributes:
        measure: `points` or `gaussian`.
        attention: one of `softmax`, `l2`, `sinkhorn`, `linear` and, for points,
            `exp` or `sigmoid`.
        heads: the heads, all of the same attention.
        epsilon: the bandwidth.
        start: `x` and `weights` of points; `mean` and `factor` of a Gaussian.
        iterations: number of Sinkhorn half-steps; if `None`, they stop at a tolerance.
        causal: whether tokens attend only to themselves and earlier tokens.
        radius: radius of the circle or sphere that tokens move on; `None` if they move
            in Euclidean space.
    """

    measure: str
    attention: str
    heads: tuple[Head, ...]
    epsilon: float
    start: dict[str, Any]
    iterations: int | None = None
    causal: bool = False
    radius: float | None = None


def law_of(dynamics: AbstractDynamics, mu: AbstractMeasure) -> Law:
    """The flow of a dynamics that starts at `mu`, as data for a page.

    Raises:
        UnsupportedError: if a page cannot integrate the flow, for example because its
            attention is not supported, it has further terms, or `mu` is a density.
        InvalidInputError: if there are too many tokens.
    """
    law = _Start(_attention_of(dynamics))(mu)
    if (law.iterations or 1) % 2 == 0:
        raise UnsupportedError(
            "On a page `iterations` must be an odd number of half-steps, because the "
            f"last half-step must normalise the rows; got {law.iterations}."
        )
    names = _ATTENTIONS[law.measure]
    if law.attention not in names:
        raise UnsupportedError(
            f"A page supports only {', '.join(names)} for a {law.measure}; got "
            f"`{law.attention}`. Use `--measure points`."
        )
    return law


class _Start(AbstractReader[Law]):
    """Function of the initial measure, which adds the measure to the law of a flow."""

    def __init__(self, law: Law) -> None:
        self._law = law

    @override
    def read_points(self, mu: Points) -> Law:
        x, weights = np.asarray(mu.tokens.x), np.asarray(mu.weights)
        if len(x) > TOKENS:
            raise InvalidInputError(
                f"A page integrates up to {TOKENS} tokens; got {len(x)}. Use a smaller "
                "`--n`."
            )
        if self._law.causal:
            _check_order(mu.tokens.position)
            _check_mask(self._law)
        is_uniform = bool(np.all(weights == weights[0]))
        start = {"x": x.tolist(), "weights": None if is_uniform else weights.tolist()}
        radius = _radius(mu.space, x.shape[1])
        return replace(self._law, measure="points", start=start, radius=radius)

    @override
    def read_gaussian(self, mu: Gaussian) -> Law:
        if self._law.causal:
            raise UnsupportedError("A Gaussian has no positions; leave out `mask`.")
        mean, factor = np.asarray(mu.mean), np.asarray(mu.factor)
        start = {"mean": mean.tolist(), "factor": factor.tolist()}
        return replace(self._law, measure="gaussian", start=start)

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> Law:
        raise _other_measure(mu)

    @override
    def read_grid(self, mu: Grid) -> Law:
        raise _other_measure(mu)


def _radius(space: AbstractSpace, d: int) -> float | None:
    """The radius of a circle or sphere; `None` for Euclidean space.

    Raises:
        UnsupportedError: for any other space.
    """
    if isinstance(space, Euclidean):
        return None
    if not isinstance(space, Sphere) or d not in _DRAWN:
        raise UnsupportedError(
            "A page draws tokens in Euclidean space, on a circle (`d = 2`) and on a "
            f"sphere (`d = 3`); got {space} in dimension {d}. {_ADVICE}."
        )
    return space.scale(d)


def _other_measure(mu: AbstractMeasure) -> UnsupportedError:
    return UnsupportedError(
        f"A page integrates tokens and Gaussians; got a {type(mu).__name__}. Use "
        "`--measure points` or `--measure gaussian`."
    )


def _check_order(position: Array | None) -> None:
    if position is None or np.any(np.diff(np.asarray(position)) <= 0):
        raise UnsupportedError(
            "With a mask, a page needs tokens in order of increasing position. Leave "
            "out `mask`."
        )


def _check_mask(law: Law) -> None:
    if law.attention == "sinkhorn":
        raise UnsupportedError(
            "A page does not support Sinkhorn attention with a mask: leave out `mask`, "
            "or use `meanfield simulate`."
        )


def _attention_of(dynamics: AbstractDynamics) -> Law:
    """The law of a dynamics, without an initial measure.

    Raises:
        UnsupportedError: unless the dynamics is a single attention, possibly with
            heads and a causal mask.
    """
    if isinstance(dynamics, Heads):
        heads = [
            _attention_of(member_of(dynamics.stack, h)) for h in range(dynamics.n_heads)
        ]
        merged_heads = tuple(head for law in heads for head in law.heads)
        return replace(heads[0], heads=merged_heads)
    if isinstance(dynamics, Prefix):
        _require_causal(dynamics.mask)
        return replace(_attention_of(dynamics.dynamics), causal=True)
    if not isinstance(dynamics, Attention) or np.any(np.asarray(dynamics.offset)):
        feature = _FEATURES.get(type(dynamics).__name__, "other parts")
        raise UnsupportedError(
            "A page supports only a single attention, which may have heads and the "
            f"mask `causal`; this flow has {feature}. {_ADVICE}."
        )
    if isinstance(dynamics.score, Masked):
        _require_causal(dynamics.score.mask)
        law = _unmasked_law(dynamics, dynamics.score.score)
        if law.attention not in _NORMALISED_ATTENTIONS:
            raise UnsupportedError(
                "A page supports a mask in the score only for normalised attentions, "
                f"and `{law.attention}` is not normalised. {_ADVICE}."
            )
        return replace(law, causal=True)
    return _unmasked_law(dynamics, dynamics.score)


def _require_causal(mask: object) -> None:
    if mask is not causal:
        raise UnsupportedError(f"A page supports only the mask `causal`. {_ADVICE}.")


def _unmasked_law(attention: Attention, score: AbstractScore) -> Law:
    """The law of an attention without its mask."""
    name = _name(attention, score)
    assert isinstance(score, Dot | SquaredDistance)
    if isinstance(score, Dot) and (np.any(score.query_bias) or np.any(score.key_bias)):
        raise UnsupportedError(f"A page does not support biases. {_ADVICE}.")
    epsilon = float(score.epsilon)
    times = epsilon if name == "sinkhorn" else 1.0
    Q, K = np.asarray(score.Q), np.asarray(score.K)
    if isinstance(score, Dot):
        Q, K = K.T @ Q, np.eye(Q.shape[1])
    V = times * np.asarray(attention.value)
    head = Head(Q.tolist(), K.tolist(), V.tolist())
    coupling = attention.coupling
    steps = coupling.iterations if isinstance(coupling, Sinkhorn) else None
    return Law("", name, (head,), epsilon, {}, iterations=steps)


def _name(attention: Attention, score: AbstractScore) -> str:
    """The name of an attention on a page.

    Raises:
        UnsupportedError: if a page does not support it.
    """
    eye, coupling = jnp.ones((1, 1)), attention.coupling
    for name in _POINT_ATTENTIONS:
        unit = attentions[name](eye, eye, eye)
        # The number of half-steps of Sinkhorn attention does not matter.
        is_sinkhorn = isinstance(coupling, Sinkhorn) and name == "sinkhorn"
        is_match = is_sinkhorn or eqx.tree_equal(coupling, unit.coupling) is True
        if is_match and type(score) is type(unit.score):
            return name
    raise UnsupportedError(
        f"A page integrates only the attentions {', '.join(_POINT_ATTENTIONS)}; this "
        f"flow has another attention. {_ADVICE}."
    )
