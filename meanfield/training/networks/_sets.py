r"""Blocks of set transformers, with attention to a few trained inducing points.

Source: Lee et al., 2019, section 3, where they are called MAB, ISAB and PMA. Here each
part is preceded by a norm.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.measures import Dense, Points
from meanfield.tokens import Tokens

from ._blocks import Perceptron
from ._head import CrossAttention, cross_attention
from ._variant import Variant


class CrossAttentionBlock(eqx.Module):
    r"""Block of cross-attention and a perceptron, each preceded by norms.

    It maps queries $x$ and keys $y$ to $h + p(e(h))$ with $h = x + a(b(x), c(y))$.

    Attributes:
        attention: cross-attention $a$.
        query_norm: norm $b$.
        key_norm: norm $c$.
        perceptron: perceptron $p$, of width `width`, or `d` if `width` is `None`.
        inner_norm: norm $e$.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import CrossAttentionBlock, Variant
        >>> key, variant = jax.random.key(0), Variant("softmax")
        >>> block = CrossAttentionBlock(key, variant, d=3, k=2, n_heads=4)
        >>> queries = Points.uniform(jnp.eye(3))
        >>> block(queries, Points.uniform(jnp.ones((9, 3)))).tokens.x.shape
        (3, 3)
    """

    attention: CrossAttention
    query_norm: eqx.nn.LayerNorm
    key_norm: eqx.nn.LayerNorm
    perceptron: Perceptron
    inner_norm: eqx.nn.LayerNorm

    def __init__(
        self,
        key: PRNGKey,
        variant: Variant,
        *,
        d: int,
        k: int,
        n_heads: int,
        width: int | None = None,
    ) -> None:
        first, second = jax.random.split(key)
        self.attention = cross_attention(first, variant, d=d, k=k, n_heads=n_heads)
        self.perceptron = Perceptron(second, d=d, width=d if width is None else width)
        norms = (eqx.nn.LayerNorm(d) for _ in range(3))
        self.query_norm, self.key_norm, self.inner_norm = norms

    def __call__(self, queries: Points, keys: Points) -> Points:
        """The queries after the block."""
        normalise = lambda norm, mu: mu.replace_coordinates(jax.vmap(norm)(mu.tokens.x))
        update = self.attention(
            normalise(self.query_norm, queries), normalise(self.key_norm, keys)
        )
        mu = queries.replace_coordinates(queries.tokens.x + update)
        return mu.replace_coordinates(
            mu.tokens.x + self.perceptron(normalise(self.inner_norm, mu))
        )


class InducedBlock(eqx.Module):
    """Self-attention of a set through inducing points, in linear time (ISAB).

    Attributes:
        points: trained inducing points.
        inward: cross-attention of the inducing points to the set.
        outward: cross-attention of the set to the updated points.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import InducedBlock, Variant
        >>> key, variant = jax.random.key(0), Variant("softmax")
        >>> block = InducedBlock(key, variant, m=2, d=3, k=2, n_heads=4)
        >>> block(Points.uniform(jnp.ones((9, 3)))).tokens.x.shape
        (9, 3)
    """

    points: Float[Array, "m d"]
    inward: CrossAttentionBlock
    outward: CrossAttentionBlock

    def __init__(
        self, key: PRNGKey, variant: Variant, *, m: int, d: int, k: int, n_heads: int
    ) -> None:
        keys = jax.random.split(key, 3)
        self.points = jax.random.normal(keys[0], (m, d))
        self.inward, self.outward = (
            CrossAttentionBlock(block_key, variant, d=d, k=k, n_heads=n_heads)
            for block_key in keys[1:]
        )

    def __call__(self, mu: Points) -> Points:
        """The set after the block."""
        return self.outward(mu, self.inward(uniform_measure(self.points), mu))


class Pooling(eqx.Module):
    """Pooling of a set, by cross-attention of trained points to the set (PMA).

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Pooling, Variant
        >>> key, variant = jax.random.key(0), Variant("softmax")
        >>> pooling = Pooling(key, variant, m=2, d=3, k=2, n_heads=4)
        >>> pooling(Points.uniform(jnp.ones((9, 3)))).shape
        (2, 3)
    """

    points: Float[Array, "m d"]
    block: CrossAttentionBlock

    def __init__(
        self, key: PRNGKey, variant: Variant, *, m: int, d: int, k: int, n_heads: int
    ) -> None:
        first, second = jax.random.split(key)
        self.points = jax.random.normal(first, (m, d))
        self.block = CrossAttentionBlock(second, variant, d=d, k=k, n_heads=n_heads)

    def __call__(self, mu: Points) -> Float[Array, "m d"]:
        """The pooled values, one for each trained point."""
        return self.block(uniform_measure(self.points), mu).tokens.x


def uniform_measure(x: Float[Array, "n d"]) -> Points:
    """Tokens of equal weight, with dense sums."""
    n = x.shape[0]
    return Points(Tokens(x), jnp.full(n, -jnp.log(float(n)), x.dtype), Dense())
