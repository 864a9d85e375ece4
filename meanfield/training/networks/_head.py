"""Attention heads: attentions of the library with value and output projections."""

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
    r"""Attention head $x_i \mapsto O\sum_j \kappa_{ij} W x_j$.

    The weights $\kappa_{ij}$ come from an attention of the library, whose value matrix
    is replaced by the trained projections $W$ and $O$.

    Attributes:
        score: score of queries and keys.
        coupling: rule that turns scores into weights.
        value_projection: value projection $W$.
        output_projection: output projection $O$.

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
    value_projection: Float[Array, "k d"]
    output_projection: Float[Array, "d k"]

    def __call__(self, mu: Points) -> Float[Array, "n d"]:
        """The value that the head adds to each token."""
        return self.means(mu) @ self.output_projection.T

    def means(self, mu: Points) -> Float[Array, "n k"]:
        r"""The means $\sum_j \kappa_{ij} W x_j$ before the output projection."""
        values = mu.tokens.x @ self.value_projection.T
        return self._barycentre(mu).means(values)

    def plan(self, mu: Points) -> Float[Array, "n n"]:
        r"""The attention matrix, with the entries $\kappa_{ij}$.

        Raises:
            UnsupportedError: if the attention has no such matrix.
        """
        return self._barycentre(mu).weights()

    def cross_means(self, queries: Points, keys: Points) -> Float[Array, "m k"]:
        r"""The means $\sum_j \kappa_{ij} W y_j$ of the keys, for each query."""
        field = _normalise_slices(self.coupling).cross_barycentre(
            self.score, queries, keys
        )
        if not isinstance(field, AbstractBarycentre):
            raise _no_matrix_error(field)
        plan = field.weights_at(queries.tokens)
        return plan @ (keys.tokens.x @ self.value_projection.T)

    def attend(self, queries: Points, keys: Points) -> Float[Array, "m d"]:
        r"""Cross-attention $O\sum_j \kappa_{ij} W y_j$ to the keys, for each query."""
        return self.cross_means(queries, keys) @ self.output_projection.T

    def attention(self) -> Attention:
        """The head as an attention of the library, with value matrix $OW$."""
        coupling = _normalise_slices(self.coupling)
        value = self.output_projection @ self.value_projection
        return Attention(self.score, coupling, value)

    def _barycentre(self, mu: Points) -> AbstractBarycentre:
        barycentre = _normalise_slices(self.coupling).barycentre(self.score, mu)
        if not isinstance(barycentre, AbstractBarycentre):
            raise _no_matrix_error(barycentre)
        return barycentre


class CrossAttention(eqx.Module):
    """Layer of cross-attention heads.

    Attributes:
        heads: all heads, as one `Head` whose arrays have a leading axis of heads.

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
        """The sum of all heads at each query."""
        in_axes = (eqx.if_array(0), None, None)
        means = eqx.filter_vmap(Head.cross_means, in_axes=in_axes)
        return _sum_outputs(self.heads, means(self.heads, queries, keys))


class SelfAttention(eqx.Module):
    """Layer of self-attention heads.

    Attributes:
        heads: all heads, as one `Head` whose arrays have a leading axis of heads.

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
        """The sum of all heads at each token."""
        means = eqx.filter_vmap(lambda head: head.means(mu))(self.heads)
        return _sum_outputs(self.heads, means)

    def plans(self, mu: Points) -> Float[Array, "heads n n"]:
        """The attention matrix of each head."""
        return eqx.filter_vmap(lambda head: head.plan(mu))(self.heads)

    def dynamics(self) -> Heads:
        """The layer as a dynamics; the layer itself adds one Euler step of length 1."""
        return Heads(eqx.filter_vmap(lambda head: head.attention())(self.heads))


def self_attention(
    key: PRNGKey, variant: Variant, *, d: int, k: int, n_heads: int
) -> SelfAttention:
    """New self-attention layer with independent random heads.

    Args:
        key: random key.
        variant: attention of all heads.
        d: dimension of the tokens.
        k: dimension of a head.
        n_heads: number of heads.

    Raises:
        UnknownNameError: if no attention has that name.
        InvalidInputError: if an option does not fit.

    Examples:
        >>> from meanfield.training import Variant, self_attention
        >>> variant = Variant("sinkhorn", {"iterations": 3})
        >>> layer = self_attention(jax.random.key(0), variant, d=3, k=2, n_heads=4)
        >>> layer.heads.score.Q.shape, layer.heads.output_projection.shape
        ((4, 2, 3), (4, 3, 2))
    """
    return SelfAttention(_heads(key, variant, d, k, n_heads))


def cross_attention(
    key: PRNGKey, variant: Variant, *, d: int, k: int, n_heads: int
) -> CrossAttention:
    """New cross-attention layer with independent random heads; see `self_attention`.

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
        attention = variant.build_attention(keys[0], d=d, k=k)
        projections = projection(keys[1], k, d), projection(keys[2], d, k)
        return Head(attention.score, attention.coupling, *projections)

    return eqx.filter_vmap(head)(jax.random.split(key, n_heads))


def _sum_outputs(heads: Head, means: Float[Array, "heads n k"]) -> Float[Array, "n d"]:
    """The sum of the output projections of all heads, as one product."""
    return jnp.einsum("hnk,hdk->nd", means, heads.output_projection)


def _no_matrix_error(field: AbstractField) -> UnsupportedError:
    return UnsupportedError(
        f"`{type(field).__name__}` has no attention matrix to multiply values with. "
        "Train with an attention whose field is an `AbstractBarycentre`."
    )


def _normalise_slices(coupling: AbstractCoupling) -> AbstractCoupling:
    """The coupling with its slice directions normalised to length 1."""
    if not isinstance(coupling, AbstractSoftSlices):
        return coupling
    lengths = jnp.linalg.norm(coupling.directions, axis=1, keepdims=True)
    return dataclasses.replace(coupling, directions=coupling.directions / lengths)
