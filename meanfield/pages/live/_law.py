"""What a browser integrates: the numbers of a dynamics, a start and its times."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield.attention import Attention, Sinkhorn, attentions
from meanfield.dynamics import AbstractDynamics, Heads, Prefix, causal
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.measures import AbstractMeasure, AbstractReader, Gaussian, Grid, Points
from meanfield.scores import AbstractScore, Dot, Masked, SquaredDistance

TOKENS = 2_000  # beyond, a velocity takes a browser a second
_OF_TOKENS = ("softmax", "l2", "sinkhorn", "linear", "sigmoid")
_OF_GAUSSIANS = ("softmax", "l2", "sinkhorn", "linear")
_NORMALISED = ("softmax", "l2")  # by rows, whatever a mask leaves of them
_KNOWN = {"points": _OF_TOKENS, "gaussian": _OF_GAUSSIANS}
_INSTEAD = "leave it out, or use `meanfield simulate`"
_BEYOND = {  # what a user asked for, by the dynamics that it became
    "Cross": "a `context`",
    "Layers": "layers, as a model or `[[layers]]` bring them",
    "Projected": "`projected`",
    "Sum": "parts beside it, as `drift` or `[[terms]]`",
}

Rows = list[list[float]]


@dataclass(frozen=True)
class Head:
    r"""One head: scores $Qx\cdot Ky/\epsilon$ or $-|Qx-Ky|^2/\epsilon$, and a value.

    Attributes:
        Q: queries; $K^\top Q$ of dot products, which depend on nothing else.
        K: keys; the identity of dot products.
        V: the value, before the $1/\epsilon$ of Sinkhorn attention.
    """

    Q: Rows
    K: Rows
    V: Rows


@dataclass(frozen=True)
class Law:
    """A flow as the page has it, JSON values alone.

    Attributes:
        measure: `points` or `gaussian`.
        attention: one of `softmax`, `l2`, `sinkhorn`, `linear` and, of points,
            `sigmoid`.
        heads: all of one kind.
        epsilon: the bandwidth.
        start: of points `x` and `weights`; of a Gaussian `mean` and `factor`.
        iterations: half-steps of Sinkhorn attention; to a tolerance if `None`.
        causal: whether a token sees those before it alone.
    """

    measure: str
    attention: str
    heads: tuple[Head, ...]
    epsilon: float
    start: dict[str, Any]
    iterations: int | None = None
    causal: bool = False


def law_of(dynamics: AbstractDynamics, mu: AbstractMeasure) -> Law:
    """The law of a flow that a page can integrate.

    Raises:
        UnsupportedError: if it is none: another attention, parts beside it, a density.
        InvalidInputError: if there are too many tokens.
    """
    law = _Start(_attention_of(dynamics))(mu)
    if (law.iterations or 1) % 2 == 0:
        raise UnsupportedError(
            "A page integrates an odd number of half-steps, after which rows are "
            f"normalised; got {law.iterations} `iterations`."
        )
    known = _KNOWN[law.measure]
    if law.attention not in known:
        raise UnsupportedError(
            f"A page integrates {', '.join(known)} for {law.measure} in closed form; "
            f"`{law.attention}` is none of them: use `--measure points`."
        )
    return law


class _Start(AbstractReader[Law]):
    """The law of a flow, once its start is known."""

    def __init__(self, law: Law) -> None:
        self._law = law

    @override
    def of_points(self, mu: Points) -> Law:
        x, weights = np.asarray(mu.tokens.x), np.asarray(mu.weights)
        if len(x) > TOKENS:
            raise InvalidInputError(
                f"A page integrates up to {TOKENS} tokens; got {len(x)}. Ask for fewer "
                "by `--n`."
            )
        if self._law.causal:
            _check_order(mu.tokens.position)
            _check_mask(self._law)
        same = bool(np.all(weights == weights[0]))
        start = {"x": x.tolist(), "weights": None if same else weights.tolist()}
        return replace(self._law, measure="points", start=start)

    @override
    def of_gaussian(self, mu: Gaussian) -> Law:
        if self._law.causal:
            raise UnsupportedError("A Gaussian has no positions: leave out `mask`.")
        mean, factor = np.asarray(mu.mean), np.asarray(mu.factor)
        start = {"mean": mean.tolist(), "factor": factor.tolist()}
        return replace(self._law, measure="gaussian", start=start)

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Law:
        raise _other_measure(mu)

    @override
    def of_grid(self, mu: Grid) -> Law:
        raise _other_measure(mu)


def _other_measure(mu: AbstractMeasure) -> UnsupportedError:
    return UnsupportedError(
        f"A page integrates tokens and Gaussians; got a {type(mu).__name__}. Use "
        "`--measure points` or `--measure gaussian`."
    )


def _check_order(position: Array | None) -> None:
    if position is None or np.any(np.diff(np.asarray(position)) <= 0):
        raise UnsupportedError(
            "A page masks tokens in their order, and the positions of these do not "
            "increase: leave out `mask`."
        )


def _check_mask(law: Law) -> None:
    if law.attention == "sinkhorn":
        raise UnsupportedError(
            "A page does not solve Sinkhorn attention for each prefix of a mask: leave "
            "out `mask`, or use `meanfield simulate`."
        )


def _attention_of(dynamics: AbstractDynamics) -> Law:
    """The attention of a dynamics, without a start.

    Raises:
        UnsupportedError: if it is more than heads of one attention, masked perhaps.
    """
    if isinstance(dynamics, Heads):
        heads = [_attention_of(_head(dynamics.stack, h)) for h in range(dynamics.count)]
        every = tuple(head for law in heads for head in law.heads)
        return replace(heads[0], heads=every)
    if isinstance(dynamics, Prefix):
        _require_causal(dynamics.mask)
        return replace(_attention_of(dynamics.dynamics), causal=True)
    if not isinstance(dynamics, Attention) or np.any(np.asarray(dynamics.offset)):
        beyond = _BEYOND.get(type(dynamics).__name__, "more than that")
        raise UnsupportedError(
            "A page integrates one attention, its heads and the mask `causal`; "
            f"this flow has {beyond}: {_INSTEAD}."
        )
    if isinstance(dynamics.score, Masked):
        _require_causal(dynamics.score.mask)
        law = _bare(dynamics, dynamics.score.score)
        if law.attention not in _NORMALISED:
            raise UnsupportedError(
                f"A page normalises what a mask leaves, and `{law.attention}` with a "
                f"mask in its score does not: {_INSTEAD}."
            )
        return replace(law, causal=True)
    return _bare(dynamics, dynamics.score)


def _head(stack: AbstractDynamics, h: int) -> AbstractDynamics:
    return jax.tree.map(lambda leaf: leaf[h] if eqx.is_array(leaf) else leaf, stack)


def _require_causal(mask: object) -> None:
    if mask is not causal:
        raise UnsupportedError(f"A page knows the mask `causal` alone: {_INSTEAD}.")


def _bare(attention: Attention, score: AbstractScore) -> Law:
    """The law of an attention without its mask."""
    name = _name(attention, score)
    assert isinstance(score, Dot | SquaredDistance)
    if isinstance(score, Dot) and (np.any(score.query_bias) or np.any(score.key_bias)):
        raise UnsupportedError(f"A page knows no biases of scores: {_INSTEAD}.")
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
    """What the page calls an attention.

    Raises:
        UnsupportedError: if it knows none like it.
    """
    one = jnp.ones((1, 1))
    units = {name: attentions[name](one, one, one) for name in _OF_TOKENS}
    for name, unit in units.items():
        is_sinkhorn = isinstance(attention.coupling, Sinkhorn)
        same = eqx.tree_equal(attention.coupling, unit.coupling) is True
        if is_sinkhorn and isinstance(unit.coupling, Sinkhorn):
            same = True  # whatever its half-steps
        if same and type(score) is type(unit.score):
            return name
    raise UnsupportedError(
        f"A page integrates {', '.join(_OF_TOKENS)}; this flow is under another "
        f"attention: {_INSTEAD}."
    )
