"""Heads: attentions of the library with the projections that networks have."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.attention import (
    AbstractBarycentre,
    AbstractCoupling,
    AbstractSoftSlices,
    Attention,
)
from meanfield.dynamics import Heads
from meanfield.errors import UnsupportedError
from meanfield.fields import AbstractField
from meanfield.measures import Points
from meanfield.scores import AbstractScore

from ._variant import Variant, projection


class Head(eqx.Module):
    r"""$x_i \mapsto O\sum_j \kappa_{ij} W x_j$, with weights of the library.

    A factor that an attention has in its value is left out: `O` learns it.

    Attributes:
        score: of queries and keys.
        coupling: from scores to weights.
        reading: $W$.
        writing: $O$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Softmax
        >>> from meanfield.scores import Dot
        >>> from meanfield.training import Head
        >>> zero, one = jnp.zeros((1, 1)), jnp.eye(1)
        >>> head = Head(Dot(zero, zero), Softmax(), one, 2 * one)
        >>> print(head(Points.uniform([[1.0], [3.0]])).ravel())  # twice the mean
        [4. 4.]
    """

    score: AbstractScore
    coupling: AbstractCoupling
    reading: Float[Array, "k d"]
    writing: Float[Array, "d k"]

    def __call__(self, mu: Points) -> Float[Array, "n d"]:
        """What the head adds to each token."""
        return self._barycentre(mu).means(mu.tokens.x @ self.reading.T) @ self.writing.T

    def plan(self, mu: Points) -> Float[Array, "n n"]:
        """What token `i` gives to token `j`.

        Raises:
            UnsupportedError: if the attention has no such matrix.
        """
        return self._barycentre(mu).weights()

    def across(self, queries: Points, keys: Points) -> Float[Array, "m d"]:
        r"""$O\sum_j \kappa_{ij} W y_j$ of keys, for each query."""
        field = _of_unit_slices(self.coupling).across(self.score, queries, keys)
        if not isinstance(field, AbstractBarycentre):
            raise _without_matrix(field)
        plan = field.weights_at(queries.tokens)
        return plan @ (keys.tokens.x @ self.reading.T) @ self.writing.T

    def attention(self) -> Attention:
        """The same as an attention, with value $OW$."""
        coupling = _of_unit_slices(self.coupling)
        return Attention(self.score, coupling, self.writing @ self.reading)

    def _barycentre(self, mu: Points) -> AbstractBarycentre:
        barycentre = _of_unit_slices(self.coupling).barycentre(self.score, mu)
        if not isinstance(barycentre, AbstractBarycentre):
            raise _without_matrix(barycentre)
        return barycentre


class CrossAttention(eqx.Module):
    """A layer of heads by which queries look at keys.

    Attributes:
        heads: one head, whose arrays lead with an axis of heads.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Variant, cross_attention
        >>> key = jax.random.key(0)
        >>> layer = cross_attention(key, Variant("softmax"), d=3, k=2, n_heads=4)
        >>> queries = Points.uniform(jnp.zeros((5, 3)))
        >>> layer(queries, Points.uniform(jnp.ones((9, 3)))).shape
        (5, 3)
    """

    heads: Head

    def __call__(self, queries: Points, keys: Points) -> Float[Array, "m d"]:
        """What all heads tell each query of the keys."""
        told = eqx.filter_vmap(lambda head: head.across(queries, keys))(self.heads)
        return jnp.sum(told, axis=0)


class SelfAttention(eqx.Module):
    """A layer of heads.

    Attributes:
        heads: one head, whose arrays lead with an axis of heads.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Variant, self_attention
        >>> key = jax.random.key(0)
        >>> layer = self_attention(key, Variant("softmax"), d=3, k=2, n_heads=4)
        >>> mu = Points.uniform(jnp.eye(3))
        >>> velocity = layer.dynamics().field(0.0, mu)(mu.tokens)
        >>> print(jnp.allclose(layer(mu), velocity, atol=1e-6))
        True
    """

    heads: Head

    def __call__(self, mu: Points) -> Float[Array, "n d"]:
        """What all heads add to each token."""
        return jnp.sum(eqx.filter_vmap(lambda head: head(mu))(self.heads), axis=0)

    def plans(self, mu: Points) -> Float[Array, "heads n n"]:
        """The matrix of each head."""
        return eqx.filter_vmap(lambda head: head.plan(mu))(self.heads)

    def dynamics(self) -> Heads:
        """The layer as a dynamics: it adds one Euler step of unit length."""
        return Heads(eqx.filter_vmap(lambda head: head.attention())(self.heads))


def self_attention(
    key: PRNGKey, variant: Variant, *, d: int, k: int, n_heads: int
) -> SelfAttention:
    """A new layer of heads that look at their own tokens, each drawn by itself.

    Args:
        key: of all that is drawn.
        variant: the attention of all heads.
        d: the dimension of tokens.
        k: the width of a head.
        n_heads: how many heads.

    Raises:
        UnknownNameError: if no attention has that name.
        InvalidInputError: if an option does not fit.

    Examples:
        >>> from meanfield.training import Variant, self_attention
        >>> variant = Variant("sinkhorn", {"iterations": 3})
        >>> layer = self_attention(jax.random.key(0), variant, d=3, k=2, n_heads=4)
        >>> layer.heads.score.Q.shape, layer.heads.writing.shape
        ((4, 2, 3), (4, 3, 2))
    """
    return SelfAttention(_heads(key, variant, d, k, n_heads))


def cross_attention(
    key: PRNGKey, variant: Variant, *, d: int, k: int, n_heads: int
) -> CrossAttention:
    """The same, of heads that look at other tokens.

    Examples:
        >>> from meanfield.training import Variant, cross_attention
        >>> variant = Variant("esp-soft", {"slices": 3})
        >>> layer = cross_attention(jax.random.key(0), variant, d=3, k=2, n_heads=4)
        >>> layer.heads.coupling.directions.shape
        (4, 3, 2)
    """
    return CrossAttention(_heads(key, variant, d, k, n_heads))


def _heads(key: PRNGKey, variant: Variant, d: int, k: int, n_heads: int) -> Head:
    def head(key: PRNGKey) -> Head:
        keys = jax.random.split(key, 3)
        attention = variant.drawn(keys[0], d=d, k=k)
        reading, writing = projection(keys[1], k, d), projection(keys[2], d, k)
        return Head(attention.score, attention.coupling, reading, writing)

    return eqx.filter_vmap(head)(jax.random.split(key, n_heads))


def _without_matrix(field: AbstractField) -> UnsupportedError:
    return UnsupportedError(
        f"`{type(field).__name__}` has no attention matrix, which values are "
        "multiplied by; train with an `AbstractBarycentre`."
    )


def _of_unit_slices(coupling: AbstractCoupling) -> AbstractCoupling:
    """Slices of length one, whatever length their directions were taught."""
    if not isinstance(coupling, AbstractSoftSlices):
        return coupling
    lengths = jnp.linalg.norm(coupling.directions, axis=1, keepdims=True)
    return dataclasses.replace(coupling, directions=coupling.directions / lengths)
