"""Hardmax attention: the keys of the largest score share the whole weight."""

from typing import TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.dynamics import (
    AbstractDynamics,
    Discontinuous,
    Heads,
    Prefix,
    Sum,
)
from meanfield.fields import AbstractExplicit, AbstractField
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import AbstractScore, Alibi, Dot, Masked
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import AbstractBarycentre, AbstractRowwise

_ROUNDINGS = 32  # scores that differ by this many eps of the largest are equal
_ROWS = 256  # queries whose scores are computed at once


class Hardmax(AbstractRowwise, Discontinuous):
    r"""$\kappa_\mu(x, \cdot)$ is constant on the keys of the largest score, else zero.

    It is the limit of softmax at zero temperature. Source: Alcalde, Fantuzzi and Zuazua
    (2024), "Clustering in pure-attention hardmax transformers", eq. (1.2).

    Attributes:
        includes_self: whether a token counts as its own key. A query that is no token
            leaves out the keys at its place. Without any key, the barycentre is zero.

    Examples:
        >>> from meanfield import Points, attentions
        >>> mu = Points.uniform([[-1.0], [0.5], [2.0]])
        >>> hardmax = attentions["hardmax"](A=1.0, d=1, V=1.0)
        >>> print(hardmax.field(0.0, mu)(mu.tokens).ravel())
        [-1.  2.  2.]
    """

    includes_self: bool = eqx.field(static=True, default=True)

    @property
    @override
    def rows_sum_to_one(self) -> bool:
        return self.includes_self

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> "Leaders":
        return Leaders(score, mu, self.includes_self)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """True, since a mean of keys is no larger than the largest of them."""
        del score, mu
        return jnp.ones((), bool)


class Leaders(AbstractExplicit, AbstractBarycentre):
    """The mean, by weight, of the keys whose score is largest."""

    score: AbstractScore
    mu: Points
    includes_self: bool = eqx.field(static=True)

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        x, places = self.mu.safe_tokens.x, self._places(tokens)

        def row(query: tuple[Tokens, Int[Array, ""]]) -> Float[Array, " d"]:
            token, key = jax.tree.map(lambda leaf: leaf[None], query)
            return (self._weights(token, key) @ x)[0]

        return jax.lax.map(row, (tokens, places), batch_size=_ROWS)

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.weights_at(self.mu.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        return self._weights(queries, self._places(queries))

    def gaps(
        self,
    ) -> tuple[Float[Array, "n n"], Float[Array, "n 1"], Bool[Array, "n n"]]:
        """Scores of the tokens, differences that are rounding, and which keys count."""
        return self._scores(self.mu.tokens, self._places(self.mu.tokens))

    def _places(self, queries: Tokens) -> Int[Array, " m"]:
        """The key that is the query itself; -1 if queries are not the tokens."""
        n, keys = queries.x.shape[0], self.mu.tokens.x
        if self.includes_self or queries.x.shape != keys.shape:
            return jnp.full(n, -1)
        is_same = jnp.all((queries.x == keys) | jnp.isnan(keys))
        return jnp.where(is_same, jnp.arange(n), -1)

    def _scores(
        self, queries: Tokens, places: Int[Array, " m"]
    ) -> tuple[Float[Array, "m n"], Float[Array, "m 1"], Bool[Array, "m n"]]:
        keys = self.mu.safe_tokens
        scores = self.score(queries, keys)
        counts = ~jnp.isneginf(scores + self.mu.log_weights[None])
        sizes = jnp.max(
            jnp.abs(scores), axis=1, where=counts, initial=0.0, keepdims=True
        )
        if not self.includes_self:
            is_place = jnp.all(queries.x[:, None] == keys.x[None], axis=-1)
            is_own = jnp.arange(keys.n)[None] == places[:, None]
            counts &= ~jnp.where(places[:, None] < 0, is_place, is_own)
        return scores, _ROUNDINGS * jnp.finfo(scores.dtype).eps * sizes, counts

    def _weights(
        self, queries: Tokens, places: Int[Array, " m"]
    ) -> Float[Array, "m n"]:
        scores, tolerances, counts = self._scores(queries, places)
        largest = jnp.max(scores, axis=1, where=counts, initial=-jnp.inf, keepdims=True)
        is_leader = counts & (scores >= largest - tolerances)
        has_leader = jnp.any(is_leader, axis=1, keepdims=True)
        logs = jnp.where(is_leader, self.mu.log_weights[None], -jnp.inf)
        return jnp.where(
            has_leader, jax.nn.softmax(jnp.where(has_leader, logs, 0), axis=1), 0
        )


class FixedWeights(AbstractRowwise):
    """Weights of the keys that stay the same, as between two changes of a leader.

    Attributes:
        weights: the weight of each key for each token.
    """

    weights: Float[Array, "n n"]

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return _FixedMean(self.weights, mu)


class _FixedMean(AbstractExplicit, AbstractField):
    weights: Float[Array, "n n"]
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.weights @ self.mu.safe_tokens.x


def has_leaders(dynamics: AbstractDynamics) -> bool:
    """Whether velocities jump only where a leader of a hardmax attention changes.

    Under a mask that weighs keys, or with offsets that a token without keys lacks, the
    leaders alone do not determine velocities.
    """
    attentions = _attentions(dynamics)
    rest = [part for part in _terms(dynamics) if not _is_hardmax(part)]
    masked = [part for part in attentions if isinstance(part.score, Masked)]
    has_offset = any(bool(jnp.any(part.offset)) for part in masked)
    is_continuous = all(part.is_continuous for part in rest)
    return bool(attentions) and is_continuous and not has_offset


def fix_leaders(
    dynamics: AbstractDynamics, mu: Points
) -> tuple[AbstractDynamics, list[Bool[Array, "n n"]]]:
    """The dynamics whose leaders stay those of a measure, and these leaders.

    Leaders are a row for each token, with the keys that lead it.
    """
    weights = [_leaders(part, mu).weights() for part in _attentions(dynamics)]
    rows = iter(weights)
    terms = [
        Attention(part.score, FixedWeights(next(rows)), part.value, part.offset)
        if _is_hardmax(part)
        else part
        for part in _terms(dynamics)
    ]
    return Sum(*terms), [matrix > 0 for matrix in weights]


def margins_of_leaders(
    dynamics: AbstractDynamics,
    mu: Points,
    leaders: list[Bool[Array, "n n"]],
    reach: Float[Array, ""],
) -> tuple[Float[Array, "attentions n n"], Float[Array, "attentions n 1"]]:
    """By how much each score can change before a leader changes; negative afterwards.

    Scores are compared with the largest score of a leader. A margin is infinite if a
    change would not change velocities: for keys within `reach` of the mean of leaders.
    The second array has the differences of scores that are rounding.
    """
    margins, roundings, x = [], [], mu.safe_tokens.x
    for part, is_leader in zip(_attentions(dynamics), leaders, strict=True):
        scores, tolerances, counts = _leaders(part, mu).gaps()
        best = jnp.max(scores, axis=1, where=is_leader, initial=-jnp.inf, keepdims=True)
        logs = jnp.where(is_leader, mu.log_weights[None], -jnp.inf)
        has_leader = jnp.any(is_leader, axis=1, keepdims=True)
        weights = jax.nn.softmax(jnp.where(has_leader, logs, 0), axis=1)
        is_far = jnp.linalg.norm(x[None] - (weights @ x)[:, None], axis=-1) > reach
        gaps = jnp.where(has_leader, best, 0) - scores
        margin = jnp.where(is_leader, tolerances - gaps, gaps - tolerances)
        margins.append(jnp.where(counts & has_leader & is_far, margin, jnp.inf))
        roundings.append(tolerances)
    return jnp.stack(margins), jnp.stack(roundings)


def _terms(dynamics: AbstractDynamics) -> list[AbstractDynamics]:
    """The terms of a sum; heads and masks of hardmax attentions become attentions."""
    if isinstance(dynamics, Sum):
        return [part for term in dynamics.terms for part in _terms(term)]
    parts = [dynamics]
    if isinstance(dynamics, Heads):
        heads, static = eqx.partition(dynamics.stack, eqx.is_array)
        heads = [
            jax.tree.map(lambda leaf, h=h: leaf[h], heads)
            for h in range(dynamics.n_heads)
        ]
        parts = [part for head in heads for part in _terms(eqx.combine(head, static))]
    if isinstance(dynamics, Prefix) and not isinstance(dynamics.mask, Alibi):
        parts = [_mask(part, dynamics) for part in _terms(dynamics.dynamics)]
    return parts if all(map(_is_hardmax, parts)) else [dynamics]


def _mask(part: AbstractDynamics, prefix: Prefix) -> AbstractDynamics:
    """A hardmax attention with the mask in its score; anything else as it is."""
    if not _is_hardmax(part):
        return part
    score = Masked(part.score, prefix.mask)
    return Attention(score, part.coupling, part.value, part.offset)


def _is_hardmax(part: AbstractDynamics) -> TypeGuard[Attention]:
    return isinstance(part, Attention) and isinstance(part.coupling, Hardmax)


def _attentions(dynamics: AbstractDynamics) -> list[Attention]:
    return [part for part in _terms(dynamics) if _is_hardmax(part)]


def _leaders(part: Attention, mu: Points) -> Leaders:
    coupling = part.coupling
    assert isinstance(coupling, Hardmax)
    return coupling.barycentre(part.score, mu)


@variant("hardmax", "permutation", "orthogonal", cost="$n^2$")
def hardmax(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0, self_: bool = True
) -> Attention:
    r"""Hardmax attention: the keys of the largest $Qx\cdot Ky$ share the weight.

    The bandwidth has no effect. With `self_=False`, a token does not count as its own
    key. With a drift of $-1$ and Euler steps of $\alpha/(1+\alpha)$ the layers are
    those of Alcalde, Fantuzzi and Zuazua (2024).

    Raises:
        InvalidInputError: if `self_` is neither true nor false.
    """
    Dot(Q, K, epsilon)  # raises unless `epsilon` is positive
    return Attention(Dot(Q, K), Hardmax(bool(self_)), V)
