"""Hardmax attention: the keys of the largest score share the whole weight."""

from typing import TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.dynamics import AbstractDynamics, Discontinuous, Sum
from meanfield.fields import AbstractExplicit, AbstractField
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import AbstractScore, Dot
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
        includes_self: whether keys at the place of the query count; a query without any
            other key has the barycentre zero.

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
    r"""The mean of the keys whose score is largest, $|\{j\}|$ of them by weight."""

    score: AbstractScore
    mu: Points
    includes_self: bool = eqx.field(static=True)

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        x = self.mu.safe_tokens.x

        def row(token: Tokens) -> Float[Array, " d"]:
            query = jax.tree.map(lambda leaf: leaf[None], token)
            return (self.weights_at(query) @ x)[0]

        return jax.lax.map(row, tokens, batch_size=_ROWS)

    @override
    def weights(self) -> Float[Array, "n n"]:
        return self.weights_at(self.mu.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        gaps, tolerances = self.gaps(queries)
        logs = self.mu.log_weights - jnp.max(self.mu.log_weights)
        masses = jnp.where(gaps <= tolerances, jnp.exp(logs)[None], 0)
        totals = jnp.sum(masses, axis=1, keepdims=True)
        return masses / jnp.where(totals > 0, totals, 1)

    def gaps(self, queries: Tokens) -> tuple[Float[Array, "m n"], Float[Array, "m 1"]]:
        """How far scores are below the largest, and the gap up to which they are equal.

        The gap of a key that does not count is infinite.
        """
        keys = self.mu.safe_tokens
        scores = self.score(queries, keys)
        counts = ~jnp.isneginf(scores + self.mu.log_weights[None])
        if not self.includes_self:
            counts &= jnp.any(queries.x[:, None] != keys.x[None], axis=-1)
        largest = jnp.max(scores, axis=1, where=counts, initial=-jnp.inf, keepdims=True)
        sizes = jnp.max(
            jnp.abs(scores), axis=1, where=counts, initial=0.0, keepdims=True
        )
        gaps = jnp.where(counts, largest - scores, jnp.inf)
        return gaps, _ROUNDINGS * jnp.finfo(scores.dtype).eps * sizes


class Chosen(AbstractRowwise):
    """Fixed weights of the keys, as hardmax has between two changes of a leader.

    Attributes:
        weights: the weight of each key for each token.
    """

    weights: Float[Array, "n n"]

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return _ChosenMean(self.weights, mu)


class _ChosenMean(AbstractExplicit, AbstractField):
    weights: Float[Array, "n n"]
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.weights @ self.mu.safe_tokens.x


def has_leaders(dynamics: AbstractDynamics) -> bool:
    """Whether velocities jump only where a leader of a hardmax attention changes.

    Heads and masks of positions are not supported.
    """
    rest = [part for part in _terms(dynamics) if not _is_hardmax(part)]
    return bool(_attentions(dynamics)) and all(part.is_continuous for part in rest)


def fix_leaders(
    dynamics: AbstractDynamics, mu: Points
) -> tuple[AbstractDynamics, list[Bool[Array, "n n"]]]:
    """The dynamics whose leaders stay those of a measure, and who leads each token."""
    weights = [_leaders(part, mu).weights() for part in _attentions(dynamics)]
    rows = iter(weights)
    terms = [
        Attention(part.score, Chosen(next(rows)), part.value, part.offset)
        if _is_hardmax(part)
        else part
        for part in _terms(dynamics)
    ]
    return Sum(*terms), [matrix > 0 for matrix in weights]


def margin_of_leaders(
    dynamics: AbstractDynamics,
    mu: Points,
    leaders: list[Bool[Array, "n n"]],
    reach: Float[Array, ""],
) -> Float[Array, ""]:
    """The smallest change of a score that changes a leader; negative after a change.

    A change between keys that are within `reach` of the mean of the leaders does not
    count, since it does not change velocities.
    """
    margins = []
    for part, is_leader in zip(_attentions(dynamics), leaders, strict=True):
        gaps, tolerances = _leaders(part, mu).gaps(mu.tokens)
        x = mu.safe_tokens.x
        weights = jnp.where(is_leader, mu.probabilities[None], 0)
        totals = jnp.sum(weights, axis=1, keepdims=True)
        means = weights @ x / jnp.where(totals > 0, totals, 1)
        is_far = jnp.linalg.norm(x[None] - means[:, None], axis=-1) > reach
        margin = jnp.where(is_leader, tolerances - gaps, gaps - tolerances)
        margins.append(jnp.min(margin, where=is_far, initial=jnp.inf))
    return jnp.min(jnp.stack(margins))


def _terms(dynamics: AbstractDynamics) -> tuple[AbstractDynamics, ...]:
    return dynamics.terms if isinstance(dynamics, Sum) else (dynamics,)


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

    The bandwidth has no effect. With `self_=False`, keys at the place of the query are
    left out. With a drift of $-1$ and Euler steps of $\alpha/(1+\alpha)$ the layers are
    those of Alcalde, Fantuzzi and Zuazua (2024).

    Raises:
        InvalidInputError: if `self_` is neither true nor false.
    """
    return Attention(Dot(Q, K, epsilon), Hardmax(bool(self_)), V)
